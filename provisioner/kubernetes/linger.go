package kubernetes

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth/internal/defaults"
	"berth/provisioner"
)

// A waiter is a call that hears of its resource while it runs, so that nobody is woken for what it is about to see itself.
type waiter struct {
	id    uuid.UUID
	heard chan struct{} // something is otherwise
	news  bool          // for which somebody would be woken
}

// wait has a call hear of a resource, until it leaves. It is nil if nothing is watched.
func (c *cache) wait(id uuid.UUID) *waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isCurrent() {
		return nil
	}
	w := &waiter{id: id, heard: make(chan struct{}, 1)}
	c.waiters[id] = w
	return w
}

// leave ends it. What the call did not take note of somebody is woken for.
func (c *cache) leave(w *waiter) {
	if w == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiters[w.id] == w {
		delete(c.waiters, w.id)
	}
	if w.news && len(c.kinds) > 0 {
		c.changed(w.id)
	}
}

// tell has somebody look at a resource.
func (c *cache) tell(id uuid.UUID) {
	switch w := c.waiters[id]; {
	case c.mute:
	case w != nil:
		w.news = true
		c.stir(id)
	default:
		c.changed(id)
	}
}

// stir lets the call that waits see for itself.
func (c *cache) stir(id uuid.UUID) {
	if w := c.waiters[id]; w != nil {
		select {
		case w.heard <- struct{}{}:
		default:
		}
	}
}

// note sets whether there is news that nobody took note of, and returns whether there was.
func (c *cache) note(w *waiter, news bool) (was bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was, w.news = w.news, news
	return was
}

// linger waits a moment for what was made to be ready: most often that takes less than to be woken for it.
func (k *Kubernetes) linger(ctx context.Context, r *provisioner.Resource, n *notes, args provisioner.RuntimeArgs, o provisioner.Observation, w *waiter) (provisioner.Observation, error) {
	if w == nil {
		return o, nil
	}
	timer := time.NewTimer(defaults.KubernetesLinger)
	defer timer.Stop()
	for {
		news := k.cache.note(w, false)
		g, ok := k.glance(*r, n, args)
		if ok {
			is, err := k.answer(ctx, r, n, args, g)
			if ok = !errors.Is(err, errMoved); ok {
				o = is
			}
			if ok && (g.ready || err != nil) {
				return o, err
			}
		}
		if !ok && news { // it is not seen yet what of, or it takes a look at the cluster
			k.cache.note(w, true)
			if !k.isWithoutFault(*r) {
				return o, nil
			}
		}
		select {
		case <-ctx.Done():
			return o, nil
		case <-timer.C:
			return o, nil
		case <-w.heard:
		}
	}
}

// answer says how a resource stands by a glance, after the disks were released that are to stay.
func (k *Kubernetes) answer(ctx context.Context, r *provisioner.Resource, n *notes, args provisioner.RuntimeArgs, g glance) (provisioner.Observation, error) {
	for _, t := range g.owned {
		if _, err := k.freeOne(ctx, n, k.diskOf(*r, t)); err != nil {
			return provisioner.Observation{Phase: provisioner.PhaseUnknown}, err
		}
		n.save(r)
	}
	c := k.spec.RuntimeConfig(*r, args)
	if g.storage > 0 {
		c.StorageBytes = g.storage
	}
	r.Config = provisioner.Encode(c)
	if g.ready {
		return k.serving(ctx, *r, n)
	}
	o := provisioner.Observation{Phase: provisioner.PhasePending, Reason: reasonPods, Message: line(g.waits)}
	if g.rolling {
		o.Reason = reasonRolling
	}
	return o, nil
}

// diskOf is what there is to say of a disk that is watched, to change it.
func (k *Kubernetes) diskOf(r provisioner.Resource, t *thing) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kindVolume)
	o.SetNamespace(k.spec.namespace)
	o.SetName(strings.TrimPrefix(t.key, volumePrefix))
	o.SetUID(t.uid)
	ownedBy(o, t.anchor, anchorName(r.ProvisionID()))
	return o
}
