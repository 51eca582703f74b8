package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"berth/internal/defaults"
	"berth/lifecycle"
)

// matter is what is the matter with a resource, and what a person can do about it; nothing where all is well.
type matter struct{ words, remedy string }

// Names in remedies that stand for those of the resource at hand.
const (
	thisDeployment  = "DEPLOYMENT"
	thisResource    = "RESOURCE"
	thisProvisioner = "PROVISIONER"
)

const (
	tryAgain = "once the cause is mended, worker resource reconcile " + thisResource + " tries it at once"
	makeRoom = "nothing, or make room: more hosts, see to those that do not answer, worker provisioner uncordon, or stop and delete what is not needed; worker provisioner show " + thisProvisioner + " lists its hosts"
)

// reasons are what the reasons mean that the engine and the backends give. A backend that gives another one adds it here.
var reasons = map[string]matter{
	"BackendUnavailable": {"the provisioner's backend as a whole does not answer", "see to the backend of " + thisProvisioner + "; it is asked again by itself, in growing pauses"},
	"Contended":          {"others were in the way in the database; that is no failure", "nothing: it is tried again at once"},
	"Failed":             {"the provisioner could not do it", tryAgain},
	"Interrupted":        {"two workers in a row were lost while they worked on it", "see why workers end: their logs, memory and the host's; it is tried again within half a minute"},
	"Invalid":            {"what is asked for can not be met as it stands", "ask for something else: worker deployment update " + thisDeployment},
	"NeverFits":          {"it is larger than every host of the pool", "ask for fewer slots (worker deployment update " + thisDeployment + " --slots N), or configure a larger host"},
	"NoCapacity":         {"there is no room for it yet; it waits, in order of arrival", makeRoom},
	"Panic":              {"the provisioner's code failed", "report it with the worker's log, which has the stack; it is tried again by itself"},
	"Paused":             {"it is paused: nothing of it is made, repaired or restarted", "worker resource resume " + thisResource},
	"PingFailed":         {"its runtime does not answer as it should", "see to the runtime that the message names; it is asked again by itself"},
	"ProvisionerMissing": {"no live worker has its provisioner", "start a worker that has " + thisProvisioner + " configured"},
	"ProvisionerPaused":  {"its provisioner is paused: nothing there is made, repaired or restarted", "worker provisioner resume " + thisProvisioner},
	"FailedCreate":       {"the cluster lets in no pod of it", "see the message: what it asks for is refused; mend the template or the namespace; it is tried again by itself"},
	"Leaving":            {"what was there before is not gone yet", "see what the message names, and who holds it: a finalizer is taken off by whoever put it there"},
	"Contested":          {"it runs, and something else keeps writing a field that its template sets, and has it now", "take the field that the message names out of the template, or stop what else writes it"},
	"NameTaken":          {"an object of its name is there, and is somebody else's", "see the object that the message names, and delete it if nobody needs it; " + tryAgain},
	"NotReady":           {"it is made, and not ready yet", "see the message, and the pods it names; it is looked at again by itself"},
	"PodSecurity":        {"the namespace forbids pods like this", "mend the template, or the pod-security labels of the namespace; it is tried again by itself"},
	"QuotaExceeded":      {"a quota of the namespace has no room for it", "raise the quota, or stop and delete what is not needed; it starts by itself"},
	"QuotaUnmet":         {"a quota wants requests or limits that the template does not set", "set them in the template"},
	"RollingOut":         {"its pods are being replaced", "nothing: it is looked at again by itself"},
	"SlotsKept":          {"it is parked and keeps its slots", "nothing; worker deployment start " + thisDeployment + " has it run again"},
	"SlotsReleased":      {"it is parked and holds no slots", "nothing; worker deployment start " + thisDeployment + " has it run wherever there is room"},
	"StillHeld":          {"the provisioner says it is gone, and something is still booked for it", "report it: that is a fault of the provisioner; it is tried again by itself"},
	"Timeout":            {"the provisioner did not answer in time", tryAgain},
	"Unseen":             {"it could not be looked at", "nothing: it is looked at again by itself"},
	"Unspecified":        {"the provisioner gave a reason that is no word", "see its message, and the worker's log"},
	"Unstorable":         {"what the provisioner returned can not be stored", "report it: that is a fault of the provisioner; it is tried again by itself"},
	"WorkerLost":         {"workers were lost again and again while they worked on it, so it was set aside", "see why workers end while they work on it; worker resource reconcile " + thisResource + " tries it at once"},
}

// meaning says what a reason means. One that is not ours is a backend's own, and its message says more.
func meaning(reason string) matter {
	if m, known := reasons[reason]; known || reason == "" {
		return m
	}
	return matter{"the provisioner says so", "see the message; " + tryAgain}
}

// provisioners are how they stand just now; none where that is not known.
type provisioners map[string]struct {
	missing, paused bool
	workers         int64 // that are up and have it
	acting          int64 // of those, the ones whose configuration acts
}

// provisionersNow looks how they stand. What only they tell is left out where they can not be asked for.
func (ad *admin) provisionersNow(ctx context.Context) provisioners {
	known, err := ad.Provisioners(ctx, ad.pool)
	if err != nil {
		return nil
	}
	live, err := ad.workers(ctx)
	if err != nil {
		return nil
	}
	names := make([]string, len(known))
	for i, k := range known {
		names[i] = k.Name
	}
	configurations, err := ad.Configurations(ctx, ad.pool, names...)
	if err != nil {
		return nil
	}
	all := provisioners{}
	for _, k := range known {
		p := all[k.Name]
		p.missing, p.paused, p.workers = k.Missing, k.Paused, live[k.Name]
		all[k.Name] = p
	}
	for _, c := range configurations {
		if p := all[c.Provisioner]; c.Acts {
			p.acting = c.Workers
			all[c.Provisioner] = p
		}
	}
	return all
}

// idle says why nobody works a provisioner; nothing if somebody does, or where that is not known.
func (p provisioners) idle(name string) matter {
	at, known := p[name]
	switch {
	case !known:
	case at.workers == 0:
		return matter{fmt.Sprintf("no worker that has provisioner %q is up", name), "start worker run"}
	case at.acting == 0:
		return handOver(name)
	}
	return matter{}
}

// handOver is the matter where a configuration acts that no worker has any more, and others wait.
func handOver(name string) matter {
	return matter{"no worker that is up has its configuration that acts, and another one waits",
		fmt.Sprintf("nothing for %v: then the one that waits takes over, if its check passes (the worker's log says why not); worker provisioner activate %s has it act at once",
			defaults.Silence, name)}
}

// pause is the reason that the pause which holds a resource gives; none where no pause does.
func (p provisioners) pause(r lifecycle.Resource) string {
	switch {
	case r.Reason == "Paused", r.DesiredPhase == "ready" && r.PausedAt != nil:
		return "Paused"
	case r.Reason == "ProvisionerPaused", r.DesiredPhase == "ready" && p[r.Provisioner].paused:
		return "ProvisionerPaused"
	}
	return ""
}

// held says what keeps a resource from being looked at at all; nothing if it is.
func (p provisioners) held(r lifecycle.Resource) matter {
	at, known := p[r.Provisioner]
	switch {
	case !known:
	case at.missing:
		return about(meaning("ProvisionerMissing"), r, nil)
	case p.pause(r) != "":
		return about(meaning(p.pause(r)), r, nil)
	}
	return p.idle(r.Provisioner)
}

// of says what is the matter with a resource; nothing if it is as it is wished to be.
func (p provisioners) of(r lifecycle.Resource, deployment *uuid.UUID, now time.Time) matter {
	onItsWay := r.Phase != r.DesiredPhase || r.ObservedGeneration == 0
	held := p.held(r)
	switch {
	case r.GivenUpAt != nil && r.Reason != "":
		return about(meaning(r.Reason), r, deployment)
	case onItsWay && held.words != "":
		return held
	case r.Reason != "":
		return about(meaning(r.Reason), r, deployment)
	case !onItsWay:
		return matter{}
	case r.DeadlineAt != nil && r.DeadlineAt.Before(now):
		return about(matter{"it is past its deadline", "see the worker's log; " + tryAgain}, r, deployment)
	case r.Phase == "unknown":
		return matter{"no worker has looked at it yet", "nothing: a worker takes it up by itself"}
	}
	return matter{"it is on its way", "nothing: it is looked at again by itself"}
}

// about puts names into a matter.
func about(m matter, r lifecycle.Resource, deployment *uuid.UUID) matter {
	owner := thisDeployment
	if deployment != nil {
		owner = deployment.String()
	}
	names := strings.NewReplacer(thisDeployment, owner, thisResource, r.ID.String(), thisProvisioner, r.Provisioner)
	return matter{names.Replace(m.words), names.Replace(m.remedy)}
}
