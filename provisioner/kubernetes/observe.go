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

// Observe says how resources stand, from one listing of each kind. It asks no runtime whether it serves.
func (k *Kubernetes) Observe(ctx context.Context, rs []provisioner.Resource) ([]provisioner.Observation, error) {
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
	found, err := k.lists(ctx, union(k.kinds, kindConfigMap, kindVolume), selector)
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
	for i, r := range rs {
		l := all[r.ID.String()]
		if l == nil {
			l = &live{}
		}
		seen[i] = k.observe(r, l)
	}
	return seen, nil
}

// observe says how a resource stands by what there is of it.
func (k *Kubernetes) observe(r provisioner.Resource, l *live) provisioner.Observation {
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
	wishes, _ := k.wishes(r, args, objects, l)
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
				o.Drift = append(o.Drift, titleOf(is))
			}
			if s := standingOf(is); !s.ready && !s.serves {
				pending(reasonPods, s.broken+s.text)
			}
		}
	}
	return o
}
