package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth/provisioner"
)

// Reasons of observations.
const (
	reasonLeaving = "Leaving"    // what was there before is not gone yet
	reasonRolling = "RollingOut" // pods are being replaced
	reasonPods    = "NotReady"   // made, and not ready yet
	reasonPing    = "PingFailed" // the runtime does not answer, or not as it should
	reasonQuota   = "QuotaExceeded"
	reasonTaken   = "NameTaken" // an object of the name is somebody else's
	reasonUnseen  = "Unseen"    // could not be looked at

	reasonContested = "Contested" // somebody else writes a field of ours, which is left to that one
)

// looks is how often a call looks again when what it saw had changed by the time it wrote.
const looks = 4

// Reconcile makes what is missing, changes what differs, removes what is asked for no more, and says how it stands. What is as it is
// asked for is not written.
func (k *Kubernetes) Reconcile(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
	unknown := provisioner.Observation{Phase: provisioner.PhaseUnknown}
	args, err := readArgs(*r)
	if err != nil {
		return unknown, err
	}
	if err := k.installed(ctx); err != nil {
		return unknown, err
	}
	n := readNotes(r)
	news := k.cache.wait(r.ID)
	defer k.cache.leave(news)
	if g, ok := k.glance(*r, n, args); ok {
		if o, err := k.answer(ctx, r, n, args, g); !errors.Is(err, errMoved) {
			return o, err
		}
	}
	objects, err := k.spec.Render(*r, args, k.installation())
	if err != nil {
		return unknown, err
	}
	if n.Leaving != "" {
		return k.finishLeaving(ctx, r, n)
	}
	defer n.save(r)
	l := &live{objects: map[string]*unstructured.Unstructured{}, kinds: k.coreKinds()}
	if !k.isNew(*r, n) {
		l = nil
	}
	var o provisioner.Observation
	for range looks {
		if l == nil {
			if l, err = k.look(ctx, *r); err != nil {
				return unknown, fmt.Errorf("look: %w", err)
			}
		}
		o, err = k.converge(ctx, r, n, args, objects, l)
		switch {
		case err == nil && (o.Reason == reasonPods || o.Reason == reasonRolling):
			return k.linger(ctx, r, n, args, o, news)
		case !errors.Is(err, errMoved):
			return o, err
		}
		l = nil
	}
	// Controllers are at work on them. That is no failure.
	return provisioner.Observation{Phase: provisioner.PhasePending, Reason: reasonPods, Message: "its objects change while they are looked at"}, nil
}

// finishLeaving ends a hibernation or a deletion that was begun and is wished no more: a worker that stands still may have a delete
// still to send, and only what is made anew is safe from it. Disks are kept, and written once, so that it does not have their version.
func (k *Kubernetes) finishLeaving(ctx context.Context, r *provisioner.Resource, n *notes) (provisioner.Observation, error) {
	defer n.save(r)
	l, o, err := k.tearDown(ctx, *r, false)
	if err != nil || l == nil {
		return o, err
	}
	if o, err := k.keepDisks(ctx, n, l); err != nil || o.Phase != "" {
		return o, err
	}
	n.Leaving, n.Kinds = "", nil
	n.newToken()
	return provisioner.Observation{Phase: provisioner.PhasePending}, nil
}

// A step is what is to be done with one object.
type step struct {
	do   action
	wish wish
	was  *unstructured.Unstructured
}

type action string

const (
	create action = "create"
	update action = "update"
	remove action = "delete"
	wait   action = "wait" // until it is gone
	keep   action = "keep"
	free   action = "release" // a disk, from its owner
	grow   action = "grow"    // a disk that a StatefulSet made
)

// steps compares what is asked for with what is there. again: what is there is to be changed, for which a new token is needed.
func (k *Kubernetes) steps(n *notes, wishes []wish, l *live) (steps []step, again bool) {
	wanted := map[string]bool{}
	for _, w := range wishes {
		wanted[w.key] = true
		was := l.objects[w.key]
		if isAnchor(w.Unstructured) {
			was = l.anchor
		}
		s := step{do: keep, wish: w, was: was}
		switch {
		case was == nil:
			s.do = create
		case isLeaving(was), isOrphan(was, l):
			s.do = wait
		case k.differs(n, w, was):
			s.do = update
			again = again || n.Write == "" && tokenOf(was) != "" || tokenOf(was) == n.Write
		case isVolume(was) && anchorOf(was) != "" && isBound(was):
			s.do = free
		}
		steps = append(steps, s)
	}
	for _, o := range l.compute() {
		if wanted[objectKey(o)] {
			continue
		}
		s := step{do: remove, was: o}
		if isLeaving(o) {
			s.do = keep
		} else if !isOrphan(o, l) {
			again = again || tokenOf(o) == n.Write
		}
		steps = append(steps, s)
	}
	return steps, again
}

// differs reports whether an object is not as it was applied, or not under the token of the last change.
func (k *Kubernetes) differs(n *notes, w wish, was *unstructured.Unstructured) bool {
	mark := was.GetAnnotations()[annotationApplied]
	if mark != w.mark(n.Write) {
		return true
	}
	noted, known := n.Seen[w.key]
	return known && noted.Mark == mark && noted.Ours != oursDigest(was)
}

// isOrphan: its anchor is gone, so it is about to go.
func isOrphan(o *unstructured.Unstructured, l *live) bool {
	owner := anchorOf(o)
	return !isVolume(o) && !isAnchor(o) && (l.anchor == nil || owner != "" && owner != l.anchor.GetUID())
}

// converge takes the steps that can be taken now from how things stand.
func (k *Kubernetes) converge(ctx context.Context, r *provisioner.Resource, n *notes, args provisioner.RuntimeArgs, objects []Object, l *live) (provisioner.Observation, error) {
	n.Asked = ""
	if lost := lostDisk(l); lost != nil { // what is on it lasts as long as the pods that use it: nothing is done to them
		return provisioner.Observation{Phase: provisioner.PhasePending, Reason: reasonLeaving, Message: line(lostBy(lost))}, nil
	}
	wishes, later := k.wishes(*r, n, args, objects, l)
	steps, again := k.steps(n, wishes, l)
	grown, notYet := growths(objects, l)
	steps, later = append(steps, grown...), cmp.Or(later, notYet)
	if again {
		n.newToken() // and it is stored before anything is changed
		return provisioner.Observation{Phase: provisioner.PhasePending}, nil
	}
	for _, s := range steps {
		waits, err := k.take(ctx, r, n, s, l)
		if err != nil {
			return stopped(ctx, s, l, err)
		}
		if waits != "" {
			return provisioner.Observation{Phase: provisioner.PhasePending, Reason: reasonLeaving, Message: waits}, nil
		}
	}
	n.Parked = false
	n.Anchor = string(l.anchor.GetUID())
	disk := told(*r, wishes, l)
	if n.Disk = ""; disk != nil {
		n.Disk = objectKey(disk)
	}
	r.Config = provisioner.Encode(k.config(*r, args, disk))
	o, err := k.standing(ctx, r, n, wishes, l)
	if o.Phase == provisioner.PhaseReady && err == nil {
		if err := k.free(ctx, n, l); err != nil {
			return provisioner.Observation{Phase: provisioner.PhaseUnknown}, err
		}
	}
	if later == "" {
		n.Asked = k.asked(args)
	}
	if o.Phase != provisioner.PhaseReady || err != nil {
		return o, err
	}
	if later != "" {
		return provisioner.Observation{Phase: provisioner.PhasePending, Reason: reasonPods, Message: line(later)}, nil
	}
	return k.serving(ctx, *r, n)
}

// serving says how a resource stands whose objects are all as they are to be: ready, if the runtime answers.
func (k *Kubernetes) serving(ctx context.Context, r provisioner.Resource, n *notes) (provisioner.Observation, error) {
	err := k.ping(ctx, k.spec.host.url(r.ProvisionID()))
	switch {
	case ctx.Err() != nil && err != nil:
		return provisioner.Observation{Phase: provisioner.PhaseUnknown}, fmt.Errorf("ping %w", err)
	case err != nil:
		return provisioner.Observation{Phase: provisioner.PhasePending, Reason: reasonPing, Message: line(err.Error())}, nil
	}
	return n.healthy(), nil
}

// wishes are the objects as they are to be, the anchor first. later is what they can not ask for yet.
func (k *Kubernetes) wishes(r provisioner.Resource, n *notes, args provisioner.RuntimeArgs, objects []Object, l *live) (all []wish, later string) {
	kinds := union(k.kinds, anchored(l.anchor)...)
	for _, o := range objects {
		kinds = union(kinds, o.GroupVersionKind())
	}
	all = append(all, newWish(k.anchor(k.owner(r), args, kinds)))
	for _, o := range objects {
		w := newWish(o.Unstructured)
		n.yield(&w)
		switch was := l.objects[w.key]; {
		case was != nil && isVolume(was):
			later = cmp.Or(keepSize(&w, was), later)
		case was != nil && was.GetKind() == "StatefulSet":
			keepClaims(&w, was)
		}
		all = append(all, w)
	}
	return all, later
}

// take takes one step, and puts what came of it into l. waits says for what nothing more can be done now.
func (k *Kubernetes) take(ctx context.Context, r *provisioner.Resource, n *notes, s step, l *live) (waits string, err error) {
	var is *unstructured.Unstructured
	switch s.do {
	case keep:
		return "", k.adopt(ctx, n, s, l)
	case wait:
		if !isLeaving(s.was) {
			err = k.cluster.remove(ctx, s.was, false)
		}
		return heldBy(s.was), err
	case remove:
		return "", k.cluster.remove(ctx, s.was, !isOrphan(s.was, l))
	case create:
		if isAnchor(s.wish.Unstructured) {
			is, err = k.create(ctx, n, s.wish, "", "")
		} else {
			is, err = k.create(ctx, n, s.wish, l.anchor.GetUID(), r.ProvisionID())
		}
	case free:
		is, err = k.freeOne(ctx, n, s.was)
	case grow:
		is, err = k.grow(ctx, s)
	case update:
		was := s.was
		if isTaken(n, s.wish, was) {
			if again, err := k.contend(ctx, n, s.wish, was, l); again || err != nil {
				return "", cmp.Or(err, errMoved)
			}
		}
		if isVolume(was) {
			if was, err = k.release(ctx, was); err != nil {
				return "", err
			}
		}
		is, err = k.apply(ctx, n, s.wish, was, l.anchor.GetUID())
		err = doubled(s.wish, was, err)
	}
	if err != nil {
		return "", err
	}
	if isAnchor(is) {
		l.anchor = is
	} else {
		l.objects[s.wish.key] = is
	}
	return "", nil
}

// stopped says how things stand although a step could not be taken.
func stopped(ctx context.Context, s step, l *live, err error) (provisioner.Observation, error) {
	o := provisioner.Observation{Phase: provisioner.PhaseUnknown}
	switch {
	case errors.Is(err, errMoved), errors.Is(err, provisioner.ErrUnavailable), ctx.Err() != nil:
		return o, err
	case errors.Is(err, errTaken):
		o.Reason = reasonTaken
		return o, err
	}
	if (s.do == update || s.do == grow) && isVolume(s.was) {
		err = cannotGrow(s, err)
	}
	o.Phase = provisioner.PhasePending
	if serves(l) {
		o.Phase = provisioner.PhaseReady // as it was
	}
	return o, err
}
