package lifecycle_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/lifecycle"
)

// The model is a second telling of what every call does, small enough to be read at one go. Tests do the same to it and to the
// database, and compare everything.

// mPlace is a row of a place.
type mPlace struct {
	Provisioner, Type, Name               string
	Desired, Phase, Args                  string
	Generation, Claimed, Intent, Observed int64
	Failures, Lost                        int
	GivenUp, Leased, Due                  bool   // Due: the dispatcher will look at it
	Deadline                              string // ahead, past, or none
	Reason                                string
	gone                                  bool
	run                                   string // the phase that was wished when the run began
}

func (p *mPlace) label() string { return p.Type + "/" + p.Name }

func (p *mPlace) failing() bool { return p.GivenUp || p.Failures > 0 || p.Deadline == "past" }

// mDeployment is a row of a deployment with its places in the order in which they were made.
type mDeployment struct {
	Exists         bool
	Desired, State string
	Places         []*mPlace
	deleted        bool
}

func (d *mDeployment) current(label string) *mPlace {
	for _, p := range d.Places {
		if p.Desired != "absent" && p.label() == label {
			return p
		}
	}
	return nil
}

// world is all deployments, and what was inserted since somebody last looked.
type world struct {
	Deployments []*mDeployment
	Jobs        []string // sorted
	Events      []string // in order within a deployment
	missing     map[string]bool
}

func newWorld(n int) *world {
	w := &world{missing: map[string]bool{}}
	for range n {
		w.Deployments = append(w.Deployments, &mDeployment{})
	}
	return w
}

// all are the numbers of all deployments.
func (w *world) all() []int {
	out := make([]int, len(w.Deployments))
	for i := range out {
		out[i] = i
	}
	return out
}

func (w *world) clone() *world {
	out := &world{Jobs: slices.Clone(w.Jobs), Events: slices.Clone(w.Events), missing: maps.Clone(w.missing)}
	for _, d := range w.Deployments {
		c := *d
		c.Places = nil
		for _, p := range d.Places {
			q := *p
			c.Places = append(c.Places, &q)
		}
		out.Deployments = append(out.Deployments, &c)
	}
	return out
}

func (w *world) event(i int, format string, args ...any) {
	w.Events = append(w.Events, fmt.Sprintf("%02d ", i)+fmt.Sprintf(format, args...))
}

func (w *world) wake(i int, p *mPlace) {
	kind := map[string]string{"ready": "provision_resource", "hibernated": "hibernate_resource", "absent": "deprovision_resource"}[p.Desired]
	w.Jobs = append(w.Jobs, fmt.Sprintf("%02d %s %s queue provisioner-%s priority 1", i, p.label(), kind, p.Provisioner))
	slices.Sort(w.Jobs)
}

// wish is a new intent: one generation after the one that was claimed, everything about failing forgotten.
func (w *world) wish(i int, p *mPlace, phase string) {
	p.Desired = phase
	p.Generation, p.Intent = p.Claimed+1, p.Claimed+1
	p.Failures, p.Lost, p.GivenUp, p.Reason, p.Due, p.Deadline = 0, 0, false, "", true, "none"
	if phase == "ready" {
		p.Deadline = "ahead"
	}
	w.wake(i, p)
}

// settle derives a state, turns the places of a restart around and lets a deployment go.
func (w *world) settle(i int) {
	d := w.Deployments[i]
	if d.Desired == "deleted" && len(d.Places) == 0 {
		*d = mDeployment{deleted: true}
		w.event(i, "DeploymentDeleted")
		return
	}
	var standings []lifecycle.Standing
	for _, p := range d.Places {
		if d.Desired == "running" && p.Desired == "hibernated" && p.Phase == "hibernated" && p.Observed >= p.Intent {
			w.wish(i, p, "ready")
		}
		standings = append(standings, lifecycle.Standing{Desired: p.Desired, Phase: p.Phase, Observed: p.Observed >= p.Intent,
			GivenUp: p.GivenUp, Overdue: p.Deadline == "past", Missing: w.missing[p.Provisioner]})
	}
	if state := lifecycle.State(d.Desired, standings); state != d.State {
		w.event(i, "StateChanged %s>%s", d.State, state)
		d.State = state
	}
}

// op is one call of an admin.
type op struct {
	Call  string
	Name  string // of a database
	Size  int    // slots of an update, size of a database
	Slots []int  // which deployments
}

// calls are the names of all operations.
var calls = []string{"create", "start", "stop", "restart", "update", "delete", "add", "remove"}

// apply does to the model what the call should do to the tables, and returns the refusal that it should meet.
func (w *world) apply(o op) error {
	for _, i := range slices.Sorted(slices.Values(o.Slots)) {
		d := w.Deployments[i]
		switch {
		case o.Call == "create" && (d.deleted || d.Exists && d.Desired == "deleted"):
			return lifecycle.ErrConflict
		case o.Call == "create" || d.Exists && d.Desired != "deleted":
		case o.Call == "delete" && (d.Exists || d.deleted):
		case d.Exists:
			return lifecycle.ErrConflict
		}
	}
	for _, i := range o.Slots {
		if d := w.Deployments[i]; !d.Exists && o.Call != "create" && (o.Call != "delete" || !d.deleted) {
			return lifecycle.ErrNotFound
		}
	}
	for _, i := range o.Slots {
		if d := w.Deployments[i]; o.Call == "create" || d.Exists {
			w.one(i, d, o)
		}
	}
	return nil
}

func (w *world) one(i int, d *mDeployment, o op) {
	asked := map[string]string{"start": "StartAsked", "stop": "StopAsked", "restart": "RestartAsked", "delete": "DeleteAsked"}[o.Call]
	was := d.Desired
	changed := false
	drive := func(p *mPlace, phase string) {
		if p.Desired != phase || p.failing() {
			w.wish(i, p, phase)
			changed = true
		}
	}
	switch o.Call {
	case "create":
		if !d.Exists {
			p := &mPlace{Provisioner: staticA, Type: "runtime", Phase: "unknown", Args: runtimeArgs(2)}
			*d = mDeployment{Exists: true, Desired: "running", State: "pending", Places: []*mPlace{p}}
			w.event(i, "DeploymentCreated")
			w.wish(i, p, "ready")
		}
		return
	case "start", "stop", "restart":
		d.Desired = map[string]string{"start": "running", "stop": "stopped", "restart": "running"}[o.Call]
		for _, p := range d.Places {
			switch {
			case p.Desired == "absent":
				drive(p, "absent")
			case o.Call == "stop" || o.Call == "restart" && was == "running":
				drive(p, "hibernated")
			case was == "running":
				drive(p, p.Desired)
			default:
				drive(p, "ready")
			}
		}
	case "delete":
		d.Desired = "deleted"
		for _, p := range d.Places {
			drive(p, "absent")
		}
	case "update":
		w.patch(i, d.current("runtime/"), runtimeArgs(o.Size), "UpdateAsked")
	case "add":
		args := fmt.Sprintf(`{"size":%d}`, o.Size)
		if p := d.current("database/" + o.Name); p != nil {
			w.patch(i, p, args, "ResourceAsked")
		} else {
			p := &mPlace{Provisioner: baseA, Type: "database", Name: o.Name, Phase: "unknown", Args: args}
			d.Places = append(d.Places, p)
			w.event(i, "ResourceAsked")
			w.wish(i, p, map[string]string{"running": "ready", "stopped": "hibernated"}[d.Desired])
		}
	case "remove":
		for _, p := range d.Places {
			if before := len(w.Jobs); p.label() == "database/"+o.Name {
				drive(p, "absent")
				if len(w.Jobs) > before {
					w.event(i, "ResourceAsked")
				}
			}
		}
	}
	if asked != "" && (changed || was != d.Desired) {
		w.event(i, "%s", asked)
	}
	w.settle(i)
}

// patch changes what is asked of a place. What is parked, or on its way there, reads it when it wakes.
func (w *world) patch(i int, p *mPlace, args, event string) {
	if p.Args == args {
		return
	}
	p.Args = args
	w.event(i, "%s", event)
	if p.Desired == "ready" {
		w.wish(i, p, "ready")
	}
}

// claim is a run that begins.
func (w *world) claim(p *mPlace) {
	p.Claimed, p.Leased, p.run = p.Generation, true, p.Desired
}

// outcome is how a run ends.
type outcome struct {
	Phase   string
	Met     bool
	Failed  bool
	GivenUp bool
	Reason  string
}

// outcomes are how runs of places end, by name.
var outcomes = map[string]outcome{
	"done":    {Met: true}, // in the phase that was wished when it began
	"pending": {Phase: "pending", Reason: "Starting"},
	"failed":  {Phase: "unknown", Failed: true, Reason: "Failed"},
	"invalid": {Phase: "absent", Failed: true, GivenUp: true, Reason: "Invalid"},
	"lost":    {Phase: "unknown", GivenUp: true, Reason: "WorkerLost"},
	"full":    {Phase: "absent", Reason: "NoCapacity"},
}

// outcomeOf is how the run of a place ends.
func (p *mPlace) outcomeOf(name string) outcome {
	o := outcomes[name]
	if o.Met {
		o.Phase = p.run
	}
	return o
}

// finish is the outcome of a run stored, and everything that follows in the same transaction.
func (w *world) finish(i int, p *mPlace, o outcome) {
	d := w.Deployments[i]
	current := p.Claimed >= p.Intent
	p.Leased, p.Lost = false, 0
	if o.Phase != "unknown" {
		p.Phase = o.Phase
	}
	if current {
		p.Reason = o.Reason
		if o.Met {
			p.Observed, p.Failures, p.GivenUp, p.Deadline = p.Claimed, 0, false, "none"
		}
		if o.Failed {
			p.Failures++
		}
		p.GivenUp = p.GivenUp || o.GivenUp
		if o.Reason == "NoCapacity" || p.Desired != "ready" {
			p.Deadline = "none"
		} else if !o.Met && p.Deadline == "none" {
			p.Deadline = "ahead"
		}
	}
	p.Due = p.Generation > p.Claimed || !o.Met
	if current && o.Met && p.Desired == "absent" {
		p.gone = true
		d.Places = slices.DeleteFunc(d.Places, func(q *mPlace) bool { return q.gone })
	}
	w.settle(i)
}

func runtimeArgs(slots int) string {
	return fmt.Sprintf(`{"slots":%d,"version":"1.2.3","environment":"prod","annotations":{"organization":"acme","plan":"team","project":"web"}}`, slots)
}

func (o op) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %d of %v", o.Call, o.Name, o.Size, o.Slots))
}
