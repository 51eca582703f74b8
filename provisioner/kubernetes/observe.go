package kubernetes

import (
	"context"
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth/provisioner"
)

// fewIDs is how many resources are asked for by name; where there are more, all of the provisioner's are read.
const fewIDs = 40

// Observe says how resources stand. It asks no runtime whether it serves, and of those that are watched and in order nothing at all; the
// others are looked at, with one listing of each kind.
func (k *Kubernetes) Observe(ctx context.Context, rs []provisioner.Resource) ([]provisioner.Observation, error) {
	seen := make([]provisioner.Observation, len(rs))
	var rest []provisioner.Resource
	var places []int
	for i, r := range rs {
		if o, ok := k.watchedAs(r); ok {
			seen[i] = o
			continue
		}
		rest, places = append(rest, r), append(places, i)
	}
	looked, err := k.lookAt(ctx, rest)
	if err != nil {
		return nil, err
	}
	for i, o := range looked {
		seen[places[i]] = o
	}
	return seen, nil
}

// watchedAs is how a resource stands by what is watched, if all is well with it.
func (k *Kubernetes) watchedAs(r provisioner.Resource) (o provisioner.Observation, ok bool) {
	n := readNotes(&r)
	if k.isParked(r, n) {
		return provisioner.Observation{Phase: provisioner.PhaseHibernated}, true
	}
	args, err := readArgs(r)
	if err != nil {
		return o, false
	}
	g, ok := k.glance(r, n, args)
	return n.healthy(), ok && g.ready
}

// lookAt says how resources stand now.
func (k *Kubernetes) lookAt(ctx context.Context, rs []provisioner.Resource) ([]provisioner.Observation, error) {
	if len(rs) == 0 {
		return nil, nil
	}
	if err := k.installed(ctx); err != nil {
		return nil, err
	}
	selector := k.mark()
	if len(rs) <= fewIDs {
		ids := make([]string, len(rs))
		for i, r := range rs {
			ids[i] = r.ID.String()
		}
		slices.Sort(ids)
		selector += "," + LabelResource + " in (" + strings.Join(slices.Compact(ids), ",") + ")"
	}
	found, err := k.lists(ctx, k.coreKinds(), selector)
	if err != nil {
		return nil, err
	}
	all := map[string]*live{}
	for i := range found {
		o := &found[i]
		if !k.mine(o) {
			continue
		}
		id := o.GetLabels()[LabelResource]
		if all[id] == nil {
			all[id] = &live{objects: map[string]*unstructured.Unstructured{}}
		}
		if isAnchor(o) {
			all[id].anchor = o
		} else {
			all[id].objects[objectKey(o)] = o
		}
	}
	seen := make([]provisioner.Observation, len(rs))
	asks := driftAsks
	for i, r := range rs {
		l := all[r.ID.String()]
		if l == nil {
			l = &live{}
		}
		seen[i] = k.observe(ctx, r, l, &asks)
	}
	return seen, nil
}

// driftAsks is of how many objects a look asks what of them has changed. Of more it says only that they have.
const driftAsks = 100

// observe says how a resource stands by what there is of it.
func (k *Kubernetes) observe(ctx context.Context, r provisioner.Resource, l *live, asks *int) provisioner.Observation {
	n := readNotes(&r)
	compute := l.compute()
	switch {
	case len(compute) == 0 && n.Parked && n.Leaving == "":
		return provisioner.Observation{Phase: provisioner.PhaseHibernated}
	case len(l.objects) == 0:
		return provisioner.Observation{Phase: provisioner.PhaseAbsent} // an anchor alone is nothing, but for who deletes
	}
	args, err := readArgs(r)
	var objects []Object
	if err == nil {
		objects, err = k.spec.Render(r, args, k.installation())
	}
	if err != nil {
		if !errors.Is(err, provisioner.ErrInvalid) {
			return provisioner.Observation{Phase: provisioner.PhaseUnknown, Reason: reasonUnseen, Message: line(err.Error())}
		}
		return provisioner.Observation{Phase: provisioner.PhasePending, Reason: "Invalid", Message: line(err.Error())}
	}
	o := provisioner.Observation{Phase: provisioner.PhaseReady}
	pending := func(reason, message string) {
		if o.Phase == provisioner.PhaseReady {
			o.Phase, o.Reason, o.Message = provisioner.PhasePending, reason, line(message)
		}
	}
	if lost := lostDisk(l); lost != nil {
		pending(reasonLeaving, lostBy(lost))
	}
	wishes, _ := k.wishes(r, n, args, objects, l)
	for _, w := range wishes {
		is := l.objects[w.key]
		if isAnchor(w.Unstructured) {
			is = l.anchor
		}
		switch {
		case is == nil:
			o.Drift = append(o.Drift, titleOf(w.Unstructured))
			pending(reasonPods, titleOf(w.Unstructured)+" is not there")
		case isLeaving(is), isOrphan(is, l):
			pending(reasonLeaving, heldBy(is))
		default:
			if k.differs(n, w, is) {
				o.Drift = append(o.Drift, k.drift(ctx, n, w, is, l, asks)...)
			}
			if s := standingOf(is); !s.ready && !s.serves {
				pending(reasonPods, s.broken+s.text)
			}
		}
	}
	if o.Phase == provisioner.PhaseReady && o.Reason == "" {
		drift := o.Drift
		o = n.healthy()
		o.Drift = drift
	}
	return o
}

// drift are the fields of an object that were ours and are not as they were asked for, or the object where that can not be told.
func (k *Kubernetes) drift(ctx context.Context, n *notes, w wish, is *unstructured.Unstructured, l *live, asks *int) []string {
	whole := []string{titleOf(is)}
	if !isTaken(n, w, is) || l.anchor == nil || *asks == 0 {
		return whole
	}
	*asks--
	changes, err := k.changes(ctx, n, w, is, l)
	if err != nil {
		return whole
	}
	var all []string
	for _, c := range changes {
		all = append(all, titleOf(is)+": "+c.path.String())
	}
	return all
}
