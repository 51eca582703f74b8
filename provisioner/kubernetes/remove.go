package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth/provisioner"
)

// annotationKept is written to the disks of a resource whose deletion was begun and is wished no more.
const annotationKept = "berth.dev/kept"

// Hibernate removes everything but the disks.
func (k *Kubernetes) Hibernate(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
	if err := k.installed(ctx); err != nil {
		return provisioner.Observation{Phase: provisioner.PhaseUnknown}, err
	}
	n := readNotes(r)
	defer n.save(r)
	if n.Leaving == "" {
		l, err := k.look(ctx, *r)
		switch {
		case err != nil:
			return provisioner.Observation{Phase: provisioner.PhaseUnknown}, fmt.Errorf("look: %w", err)
		case len(left(l, false)) > 0:
			n.leave(provisioner.PhaseHibernated, l) // and it is stored before anything is deleted
			return provisioner.Observation{Phase: provisioner.PhasePending}, nil
		}
	}
	l, o, err := k.tearDown(ctx, *r, false)
	if err != nil || l == nil {
		return o, err
	}
	if o, err := k.keepDisks(ctx, n, l); err != nil || o.Phase != "" {
		return o, err
	}
	n.Leaving, n.Kinds, n.Parked, n.Anchor, n.Quotas = "", nil, true, "", ""
	n.Contests = nil // what is made anew may be left alone by others
	for key := range n.Seen {
		if !strings.HasPrefix(key, volumePrefix) {
			delete(n.Seen, key)
		}
	}
	return provisioner.Observation{Phase: provisioner.PhaseHibernated}, nil
}

// keepDisks writes the disks of what was to be deleted, and is not any more: a worker may have a delete of one still to send, and it has
// another version then. The phase is empty once all are written.
func (k *Kubernetes) keepDisks(ctx context.Context, n *notes, l *live) (o provisioner.Observation, err error) {
	if n.Leaving != provisioner.PhaseAbsent {
		return o, nil
	}
	n.newToken()
	for _, v := range l.volumes() {
		_, err := k.cluster.merge(ctx, v, map[string]any{"metadata": conditions(v, "annotations", map[string]any{annotationKept: n.Write})})
		switch {
		case isConflict(err), isGone(err):
			return provisioner.Observation{Phase: provisioner.PhasePending, Reason: reasonLeaving, Message: titleOf(v) + " changes while it is kept"}, nil
		case err != nil:
			return provisioner.Observation{Phase: provisioner.PhaseUnknown}, err
		}
	}
	return o, nil
}

// Deprovision removes everything, the disks last. It needs the id and the type alone.
func (k *Kubernetes) Deprovision(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
	if err := k.installed(ctx); err != nil {
		return provisioner.Observation{Phase: provisioner.PhaseUnknown}, err
	}
	n := readNotes(r)
	if n.Leaving != provisioner.PhaseAbsent {
		l, err := k.look(ctx, *r)
		switch {
		case err != nil:
			return provisioner.Observation{Phase: provisioner.PhaseUnknown}, fmt.Errorf("look: %w", err)
		case len(left(l, true)) > 0:
			n.leave(provisioner.PhaseAbsent, l) // and it is stored before anything is deleted
			n.save(r)
			return provisioner.Observation{Phase: provisioner.PhasePending}, nil
		}
	}
	l, o, err := k.tearDown(ctx, *r, true)
	if err != nil || l == nil {
		return o, err
	}
	r.State, r.Config = nil, nil
	return provisioner.Observation{Phase: provisioner.PhaseAbsent}, nil
}

// tearDown removes all but the disks, and the disks too if wished. It returns what it saw last once a read that was made after the last
// write finds all of it gone; until then nil, and what is there still.
func (k *Kubernetes) tearDown(ctx context.Context, r provisioner.Resource, disks bool) (*live, provisioner.Observation, error) {
	unknown := provisioner.Observation{Phase: provisioner.PhaseUnknown}
	for range looks {
		l, err := k.look(ctx, r)
		if err != nil {
			return nil, unknown, fmt.Errorf("look: %w", err)
		}
		rest := left(l, disks)
		if len(rest) == 0 {
			child, err := k.children(ctx, r, l.kinds)
			switch {
			case err != nil:
				return nil, unknown, fmt.Errorf("look: %w", err)
			case child != nil:
				return nil, leaving(child), nil
			}
			return l, unknown, nil
		}
		if wrote, err := k.deleteAll(ctx, l, disks); err != nil {
			return nil, unknown, err
		} else if !wrote {
			return nil, leaving(rest[0]), nil
		}
	}
	l, err := k.look(ctx, r)
	if err != nil {
		return nil, unknown, fmt.Errorf("look: %w", err)
	}
	for _, o := range left(l, disks) {
		return nil, leaving(o), nil
	}
	return nil, provisioner.Observation{Phase: provisioner.PhasePending, Reason: reasonLeaving}, nil // it is looked at once more
}

// left is what has to go, what is held by something first.
func left(l *live, disks bool) []*unstructured.Unstructured {
	all := l.compute()
	if l.anchor != nil {
		all = append(all, l.anchor)
	}
	if disks {
		all = append(all, l.volumes()...)
	}
	slices.SortStableFunc(all, func(a, b *unstructured.Unstructured) int { return len(b.GetFinalizers()) - len(a.GetFinalizers()) })
	return all
}

func leaving(o *unstructured.Unstructured) provisioner.Observation {
	return provisioner.Observation{Phase: provisioner.PhasePending, Reason: reasonLeaving, Message: line(heldBy(o))}
}

// deleteAll deletes what is not being deleted yet: the anchor first, so that whatever comes late has no owner. Disks go once nothing is
// there that would make new ones.
func (k *Kubernetes) deleteAll(ctx context.Context, l *live, disks bool) (wrote bool, err error) {
	if !disks {
		for _, v := range l.volumes() {
			if anchorOf(v) == "" || isLeaving(v) {
				continue
			}
			wrote = true
			if _, err := k.release(ctx, v); errors.Is(err, errMoved) {
				return true, nil // before anything goes that owns it
			} else if err != nil {
				return true, err
			}
		}
	}
	if l.anchor != nil && !isLeaving(l.anchor) {
		wrote = true
		if err := k.cluster.remove(ctx, l.anchor, false); err != nil {
			return true, err
		}
	}
	going := l.compute()
	if len(going) == 0 && l.anchor == nil && disks {
		going = l.volumes()
	}
	rest := slices.DeleteFunc(going, isLeaving)
	return wrote || len(rest) > 0, sideBySide(len(rest), func(i int) error {
		if err := k.cluster.remove(ctx, rest[i], isVolume(rest[i])); !errors.Is(err, errMoved) {
			return err
		}
		return nil // it is looked at again
	})
}
