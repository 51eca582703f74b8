package provisionertest

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"berth/provisioner"
)

// The late cases freeze a call at each of its exchanges, let another worker under a new fence do something else, and then let
// the old call go on. What the other worker brought about must stand.

func lateCreate(e *env) {
	made := e.reference(e.b.Args, false)
	e.late(e.nothing, opReconcile, made, opDeprovision, nil, nil)
	e.late(e.nothing, opReconcile, made, opReconcile, nil, made)
}

func lateResize(e *env) {
	if e.b.Larger == nil {
		return
	}
	large := e.reference(e.b.Larger, false)
	e.late(e.toGrow, opReconcile, large, opReconcile, e.b.Args, e.reference(e.b.Args, false))
	e.late(e.toGrow, opReconcile, large, opDeprovision, nil, nil)
}

func lateWake(e *env) {
	made := e.reference(e.b.Args, false)
	e.late(e.hibernated, opReconcile, made, opHibernate, nil, e.reference(e.b.Args, true))
	e.late(e.hibernated, opReconcile, made, opDeprovision, nil, nil)
}

func lateHibernate(e *env) {
	parked := e.reference(e.b.Args, true)
	e.late(e.ready, opHibernate, parked, opReconcile, nil, e.reference(e.b.Args, false))
	e.late(e.ready, opHibernate, parked, opDeprovision, nil, nil)
}

func lateDeprovision(e *env) {
	e.late(e.ready, opDeprovision, nil, opReconcile, nil, e.reference(e.b.Args, false))
	e.late(e.ready, opDeprovision, nil, opDeprovision, nil, nil)
}

// late freezes old, which alone leads to oldWant, at each of its exchanges, and lets now go first, with args if not nil, which
// leads to want.
func (e *env) late(from scene, old op, oldWant []string, now op, args json.RawMessage, want []string) {
	names := e.exchanges(from, old, oldWant)
	for at, name := range names {
		if e.spared(names, at) {
			continue
		}
		e.during(fmt.Sprintf("%s frozen at exchange %d (%s) while another worker calls %s", old.name, at, name, now.name), func() {
			e.lateOnce(from, old, now, args, want, at)
		})
	}
}

func (e *env) lateOnce(from scene, old, now op, args json.RawMessage, want []string, at int) {
	p := e.open()
	r := from(p)
	e.claim(e.b.Name, r)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	i := e.b.Steps.arm(at, frozen, cancel)
	released := false
	release := func() {
		if !released {
			released = true
			close(i.release)
		}
	}
	defer release()

	stale, call := *r, running{}
	if !e.untilFrozen(ctx, p, old, &stale, i, &call) {
		e.b.Steps.reset() // it took fewer exchanges this time
		e.remove(e.open(), r)
		return
	}
	e.b.Steps.reset()

	fresh := clone(stale) // what was stored last
	if args != nil {
		fresh.Args = args
	}
	q := e.open()
	e.claim(e.b.Name, &fresh)
	e.arrive(q, now, &fresh)
	e.holds(fresh.ID, want)
	data := e.data(fresh.ID)

	if e.b.FencedByContext {
		cancel()
	}
	release()
	_, _ = e.finish(old, &stale, call) // what it says is not stored: its fence is not the current one
	late := "after the late call"
	if e.b.Claim == nil && !e.b.FencedByContext {
		late += ", for which neither Backend.Claim nor FencedByContext is set"
	}
	e.during(late, func() {
		if e.b.Elapse != nil {
			e.b.Elapse()
		}
		e.holds(fresh.ID, want)
		e.keeps(fresh.ID, data)
		o := e.observe(q, fresh)[0]
		if now.want != provisioner.PhaseHibernated { // what keeps everything may look ready
			e.phase("Observe", o.Phase, now.want)
		}
		e.claim(e.b.Name, &fresh)
		e.arrive(q, now, &fresh)
		e.holds(fresh.ID, want)
		e.remove(q, &fresh)
	})
}

// untilFrozen repeats a call until one stands still; then call is that one, and r is as it was before it.
func (e *env) untilFrozen(ctx context.Context, p provisioner.Provisioner, do op, r *provisioner.Resource, i *interruption, call *running) bool {
	for range e.b.Calls {
		*call = e.start(ctx, p, do, r)
		ended := make(chan outcome, 1)
		select {
		case <-i.reached:
			return true
		case out := <-call.done:
			ended <- out
		case <-time.After(e.h.Patience):
			e.fail("%s neither ends nor gets to the exchange", do.name)
		}
		c := running{done: ended, before: call.before, after: call.after}
		o, err := e.finish(do, r, c)
		if err != nil {
			e.fail("%s: %v", do.name, err)
		}
		if o.Phase == do.want {
			return false
		}
		if e.b.Elapse != nil {
			e.b.Elapse()
		}
	}
	return false
}
