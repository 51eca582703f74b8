package provisionertest

import (
	"context"
	"errors"
	"slices"

	"berth/provisioner"
)

func resize(e *env) {
	if e.b.Larger == nil {
		return
	}
	p := e.open()
	small, large := e.reference(e.b.Args, false), e.reference(e.b.Larger, false)
	if slices.Equal(small, large) {
		e.fail("Backend.Inspect does not show how large something is: %q", small)
	}
	r := e.ready(p)
	data := e.data(r.ID)
	to := func(do op, args []byte, want []string) {
		r.Args = slices.Clone(args)
		e.claim(e.b.Name, r)
		e.arrive(p, do, r)
		e.keeps(r.ID, data)
		if want != nil {
			e.holds(r.ID, want)
		}
	}
	e.during("up", func() { to(opReconcile, e.b.Larger, large) })
	e.during("down", func() { to(opReconcile, e.b.Args, small) })
	e.during("while hibernated", func() {
		to(opHibernate, e.b.Args, nil)
		to(opHibernate, e.b.Larger, nil)
		to(opReconcile, e.b.Larger, large)
	})
	e.remove(p, r)
}

func resizeWithoutRoom(e *env) {
	if e.b.Larger == nil || e.b.Fill == nil {
		return
	}
	p := e.open()
	small, large := e.reference(e.b.Args, false), e.reference(e.b.Larger, false)
	r := e.ready(p)
	data, config := e.data(r.ID), string(r.Config)
	release := e.b.Fill()
	filled := true
	defer func() {
		if filled {
			release()
		}
	}()
	for range 2 {
		r.Args = slices.Clone(e.b.Larger)
		e.claim(e.b.Name, r)
		o := e.refusedForRoom(p, r)
		e.phase("Reconcile of a resize without room", o.Phase, provisioner.PhaseReady)
		e.holds(r.ID, small)
		e.keeps(r.ID, data)
		if string(r.Config) != config {
			e.fail("without room, the config changes from %s to %s", config, r.Config)
		}
		e.phase("Observe", e.observe(p, *r)[0].Phase, provisioner.PhaseReady)
	}
	e.during("asked for the old size again", func() {
		r.Args = slices.Clone(e.b.Args)
		e.claim(e.b.Name, r)
		e.arrive(p, opReconcile, r)
		e.holds(r.ID, small)
	})
	r.Args = slices.Clone(e.b.Larger)
	e.claim(e.b.Name, r)
	e.refusedForRoom(p, r)
	release()
	filled = false
	e.during("with room again", func() {
		e.claim(e.b.Name, r)
		e.arrive(p, opReconcile, r)
		e.holds(r.ID, large)
		e.keeps(r.ID, data)
	})
	e.remove(p, r)
}

func createWithoutRoom(e *env) {
	if e.b.Fill == nil {
		return
	}
	p := e.open()
	want := e.reference(e.b.Args, false)
	release := e.b.Fill()
	filled := true
	defer func() {
		if filled {
			release()
		}
	}()
	r, gone := e.resource(e.b.Args), e.resource(e.b.Args)
	for range 2 {
		for _, one := range []*provisioner.Resource{r, gone} {
			e.claim(e.b.Name, one)
			o := e.refusedForRoom(p, one)
			e.phase("Reconcile without room", o.Phase, provisioner.PhaseAbsent, provisioner.PhasePending, provisioner.PhaseUnknown, "")
			e.holds(one.ID, nil)
		}
	}
	e.remove(p, gone) // who waits can be deleted
	release()
	filled = false
	e.claim(e.b.Name, r)
	e.arrive(p, opReconcile, r)
	e.holds(r.ID, want)
	e.remove(p, r)
}

// refusedForRoom repeats Reconcile until it says that there is no room.
func (e *env) refusedForRoom(p provisioner.Provisioner, r *provisioner.Resource) provisioner.Observation {
	for range e.b.Calls {
		o, err := e.call(context.Background(), p, opReconcile, r)
		if errors.Is(err, provisioner.ErrNoCapacity) {
			return o
		}
		if err != nil || o.Phase == provisioner.PhaseReady {
			e.fail("Reconcile without room says %q and: %v", o.Phase, err)
		}
		if e.b.Elapse != nil {
			e.b.Elapse()
		}
	}
	e.fail("Reconcile does not say that there is no room")
	return provisioner.Observation{}
}
