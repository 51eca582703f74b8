package provisionertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"berth/provisioner"
)

func lister(e *env) {
	p := e.open()
	l, ok := p.(provisioner.Lister)
	if !ok {
		return
	}
	want := e.reference(e.b.Args, false)
	r := e.ready(p)
	of := func(l provisioner.Lister, id uuid.UUID) []provisioner.Object {
		objects, err := l.List(context.Background())
		if err != nil {
			e.fail("List: %v", err)
		}
		refs := map[string]bool{}
		var found []provisioner.Object
		for _, o := range objects {
			if o.Ref == "" || refs[o.Ref] {
				e.fail("List has a name that is empty or twice there: %+v", o)
			}
			refs[o.Ref] = true
			if o.ResourceID == id {
				found = append(found, o)
			}
		}
		return found
	}
	first := of(l, r.ID)
	if len(first) == 0 {
		e.fail("List does not have the objects of what was made")
	}
	if theirs, ok := e.b.OpenOther().(provisioner.Lister); ok && len(of(theirs, r.ID)) > 0 {
		e.fail("the other's List has objects that it did not make")
	}
	e.b.Steps.reset()
	of(l, r.ID)
	for at, name := range e.b.Steps.seen() {
		e.during(fmt.Sprintf("List with exchange %d (%s) refused", at, name), func() {
			e.b.Steps.arm(at, refused, nil)
			_, err := l.List(context.Background())
			e.b.Steps.reset()
			if err == nil {
				e.fail("List has no error")
			}
		})
	}
	for range 2 { // gone already is success
		for _, o := range first {
			if err := l.Remove(context.Background(), o); err != nil {
				e.fail("Remove %s: %v", o.Ref, err)
			}
		}
		e.holds(r.ID, nil)
	}
	e.during("Remove by the identity of an object that was replaced", func() {
		e.claim(e.b.Name, r)
		e.arrive(p, opReconcile, r)
		for _, o := range first {
			if err := l.Remove(context.Background(), o); err != nil {
				e.fail("%s: %v", o.Ref, err)
			}
		}
		e.holds(r.ID, want)
	})
	e.remove(p, r)
	if left := of(l, r.ID); len(left) > 0 {
		e.fail("List still has %v", left)
	}
}

func planner(e *env) {
	p := e.open()
	pl, ok := p.(provisioner.Planner)
	if !ok {
		return
	}
	plan := func(r *provisioner.Resource, changes bool) {
		got, err := pl.Plan(context.Background(), clone(*r))
		if err != nil {
			e.fail("Plan: %v", err)
		}
		if len(got) > 0 != changes {
			e.fail("Plan has %v", got)
		}
	}
	want := e.reference(e.b.Args, false)
	r := e.resource(e.b.Args)
	e.during("of what is not there", func() { plan(r, true) })
	e.holds(r.ID, nil)
	e.claim(e.b.Name, r)
	e.arrive(p, opReconcile, r)
	e.during("of what is as asked", func() { plan(r, false) })
	if e.b.Larger != nil {
		r.Args = slices.Clone(e.b.Larger)
		e.during("of a resize", func() { plan(r, true) })
	}
	e.holds(r.ID, want)
	e.remove(p, r)
}

func reserver(e *env) {
	p := e.open()
	rv, ok := p.(provisioner.Reserver)
	if !ok {
		return
	}
	want := e.reference(e.b.Args, false)
	reserve := func(r *provisioner.Resource) {
		for range 2 {
			e.claim(e.b.Name, r)
			if err := rv.Reserve(context.Background(), r); err != nil {
				e.fail("Reserve: %v", err)
			}
		}
	}
	used, given := e.resource(e.b.Args), e.resource(e.b.Args)
	reserve(used)
	reserve(given)
	e.remove(p, given)
	release := func() {}
	if e.b.Fill != nil {
		release = e.b.Fill()
	}
	func() {
		defer release()
		if e.b.Fill != nil {
			late := e.resource(e.b.Args)
			e.claim(e.b.Name, late)
			if err := rv.Reserve(context.Background(), late); !errors.Is(err, provisioner.ErrNoCapacity) {
				e.fail("Reserve without room says: %v", err)
			}
			e.remove(p, late)
		}
		e.during("with room for nothing but what is reserved", func() {
			e.claim(e.b.Name, used)
			e.arrive(e.open(), opReconcile, used)
			e.holds(used.ID, want)
		})
	}()
	e.remove(p, used)
}

func watcher(e *env) {
	p := e.open()
	w, ok := p.(provisioner.Watcher)
	if !ok {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var told atomic.Int64
	ended := make(chan error, 1)
	go func() { ended <- w.Watch(ctx, func(uuid.UUID) { told.Add(1) }) }()
	r := e.ready(p)
	e.remove(p, r)
	cancel()
	select {
	case err := <-ended:
		if err != nil && !errors.Is(err, context.Canceled) {
			e.fail("Watch ends with: %v", err)
		}
	case <-time.After(e.h.Patience):
		e.fail("Watch does not end with its context")
	}
	after := told.Load()
	r = e.ready(p)
	e.remove(p, r)
	if told.Load() != after {
		e.fail("Watch reports changes after it ended")
	}
}

func activator(e *env) {
	p := e.open()
	a, ok := p.(provisioner.Activator)
	if !ok {
		return
	}
	r := e.ready(p)
	want := e.inspect(r.ID)
	for range 2 {
		if err := a.Activate(context.Background()); err != nil {
			e.fail("Activate: %v", err)
		}
		e.holds(r.ID, want)
	}
	e.remove(p, r)
}
