package provisionertest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/google/uuid"

	"berth/provisioner"
)

var errOutage = errors.New("connection refused")

// outage makes the backend not answer.
func (e *env) outage() (restore func()) {
	if e.b.Outage != nil {
		return e.b.Outage()
	}
	return e.b.Steps.black(errOutage)
}

func info(e *env) {
	p := e.open()
	before := p.Info()
	restore := e.outage()
	during := p.Info()
	restore()
	if !before.Supports(e.b.Type) {
		e.fail("the types %q do not hold %q", before.Types, e.b.Type)
	}
	if before.Timeout < 0 || before.Concurrency < 0 {
		e.fail("a negative bound: %+v", before)
	}
	if !slices.Equal(before.Types, during.Types) || before.Timeout != during.Timeout || before.Concurrency != during.Concurrency {
		e.fail("changes from %+v to %+v while the backend does not answer", before, during)
	}
}

func sameCallTwice(e *env) {
	p := e.open()
	for _, do := range []op{opReconcile, opHibernate, opReconcile, opDeprovision} {
		e.during(do.name, func() {
			r := e.resource(e.b.Args)
			if do.name != opReconcile.name {
				r = e.ready(p)
			}
			e.claim(e.b.Name, r)
			e.arrive(p, do, r)
			first, config := e.inspect(r.ID), string(r.Config)
			e.arrive(p, do, r)
			e.holds(r.ID, first)
			if string(r.Config) != config {
				e.fail("the config changes from %s to %s", config, r.Config)
			}
			e.claim(e.b.Name, r)
			e.arrive(e.open(), do, r) // another process
			e.holds(r.ID, first)
			if (do.want == provisioner.PhaseReady) != (len(first) > 0) && do.want != provisioner.PhaseHibernated {
				e.fail("outside is %q", first)
			}
			e.remove(p, r)
		})
	}
}

func deprovisionOfNothing(e *env) {
	p := e.open()
	r := e.resource(e.b.Args)
	for range 2 {
		e.claim(e.b.Name, r)
		e.arrive(p, opDeprovision, r)
		e.holds(r.ID, nil)
	}
	made := e.ready(p)
	e.remove(p, made)
	e.remove(p, made)
	e.remove(e.open(), made)
}

func deprovisionByIDAndType(e *env) {
	p := e.open()
	for _, from := range []scene{e.nothing, e.ready, e.hibernated} {
		r := from(p)
		bare := &provisioner.Resource{ID: r.ID, Type: r.Type}
		e.remove(e.open(), bare)
	}
}

func unknownIsNotAbsent(e *env) {
	p := e.open()
	want := e.reference(e.b.Args, false)
	there, never := e.ready(p), e.resource(e.b.Args)
	e.claim(e.b.Name, there)
	e.claim(e.b.Name, never)

	restore := e.outage()
	func() {
		defer restore()
		got, err := p.Observe(context.Background(), []provisioner.Resource{*there, *never})
		for i, o := range got {
			if err == nil && o.Phase != provisioner.PhaseUnknown && o.Phase != "" {
				e.fail("Observe of resource %d says %q while nothing answers", i, o.Phase)
			}
			if err == nil && o.Reason == "" {
				e.fail("Observe of resource %d does not say why it is unknown", i)
			}
		}
		if err == nil && len(got) != 2 {
			e.fail("Observe has %d entries for 2 resources and no error", len(got))
		}
		for _, r := range []*provisioner.Resource{there, never} {
			for _, do := range []op{opReconcile, opDeprovision, opHibernate} {
				o, err := e.call(context.Background(), p, do, r)
				if o.Phase == provisioner.PhaseAbsent {
					e.fail("%s says absent while nothing answers (error: %v)", do.name, err)
				}
				if err == nil && do.name != opHibernate.name { // who keeps everything has nothing to do
					e.fail("%s has no error and says %q while nothing answers", do.name, o.Phase)
				}
				if errors.Is(err, provisioner.ErrInvalid) || errors.Is(err, provisioner.ErrNoCapacity) {
					e.fail("%s says of an outage: %v", do.name, err)
				}
			}
		}
		if _, err := p.Check(context.Background()); err == nil || e.b.Outage != nil && !errors.Is(err, provisioner.ErrUnavailable) {
			e.fail("Check says while nothing answers: %v", err)
		}
		if l, ok := p.(provisioner.Lister); ok {
			if objects, err := l.List(context.Background()); err == nil {
				e.fail("List says that there are %d objects while nothing answers", len(objects))
			}
		}
	}()
	e.holds(there.ID, want)
	e.holds(never.ID, nil)
	seen := e.observe(p, *there, *never)
	e.phase("Observe of what is there", seen[0].Phase, provisioner.PhaseReady)
	e.phase("Observe of what never was", seen[1].Phase, provisioner.PhaseAbsent)
	e.remove(p, there)
	e.remove(p, never)
}

func hibernateAndWake(e *env) {
	p := e.open()
	want := e.reference(e.b.Args, false)
	r := e.ready(p)
	data := e.data(r.ID)
	for range 2 {
		e.claim(e.b.Name, r)
		e.arrive(p, opHibernate, r)
		e.keeps(r.ID, data)
		e.phase("Observe of a hibernated resource", e.observe(p, *r)[0].Phase, provisioner.PhaseHibernated, provisioner.PhaseReady)
		p = e.open()
		e.claim(e.b.Name, r)
		e.arrive(p, opReconcile, r)
		e.holds(r.ID, want)
		e.keeps(r.ID, data)
		e.phase("Observe after the wake", e.observe(p, *r)[0].Phase, provisioner.PhaseReady)
	}
	e.claim(e.b.Name, r)
	e.arrive(p, opHibernate, r)
	e.remove(p, r)
}

// hibernateOfNothing: whoever is stopped before it ever started is parked, at no cost.
func hibernateOfNothing(e *env) {
	p := e.open()
	r := e.resource(e.b.Args)
	e.claim(e.b.Name, r)
	e.arrive(p, opHibernate, r)
	e.phase("Observe", e.observe(p, *r)[0].Phase, provisioner.PhaseHibernated, provisioner.PhaseAbsent, provisioner.PhaseReady)
	e.claim(e.b.Name, r)
	e.arrive(p, opReconcile, r)
	e.holds(r.ID, e.reference(e.b.Args, false))
	e.remove(p, r)
}

func cancelledContext(e *env) {
	p := e.open()
	want := e.reference(e.b.Args, false)
	there, never := e.ready(p), e.resource(e.b.Args)
	e.claim(e.b.Name, there)
	e.claim(e.b.Name, never)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()

	for _, try := range []struct {
		do op
		r  *provisioner.Resource
	}{{opReconcile, never}, {opReconcile, there}, {opDeprovision, there}, {opDeprovision, never}, {opHibernate, there}} {
		o, err := e.call(ctx, p, try.do, try.r)
		if err == nil && try.do.name != opHibernate.name {
			e.fail("%s has no error and says %q", try.do.name, o.Phase)
		}
		if errors.Is(err, provisioner.ErrInvalid) || errors.Is(err, provisioner.ErrNoCapacity) {
			e.fail("%s says of a context that ended: %v", try.do.name, err)
		}
		if o.Phase == provisioner.PhaseAbsent {
			e.fail("%s says absent", try.do.name)
		}
	}
	if got, err := p.Observe(ctx, []provisioner.Resource{*there}); err == nil && (len(got) != 1 || got[0].Phase != provisioner.PhaseUnknown && got[0].Phase != "") {
		e.fail("Observe has no error and says %+v", got)
	}
	if _, err := p.Check(ctx); err == nil {
		e.fail("Check has no error")
	}
	e.holds(never.ID, nil)
	e.holds(there.ID, want)
	e.claim(e.b.Name, never)
	e.arrive(p, opReconcile, never)
	e.remove(p, there)
	e.remove(p, never)
}

func othersThingsLeftAlone(e *env) {
	p, other := e.open(), e.b.OpenOther()
	mine := e.reference(e.b.Args, false)
	r := e.ready(p)
	data := e.data(r.ID)
	s := &provisioner.Resource{ID: r.ID, Type: r.Type, Args: slices.Clone(r.Args)} // of the same id, at the other
	untouched := func(after string) {
		e.during("after the other's "+after, func() {
			e.holds(r.ID, mine)
			e.keeps(r.ID, data)
			e.phase("Observe", e.observe(p, *r)[0].Phase, provisioner.PhaseReady)
		})
	}
	clean := func() {
		e.claim(e.b.OtherName, s)
		e.arrive(other, opDeprovision, s)
		if left := e.b.Inspect(e.b.OtherName, s.ID); len(left) > 0 {
			e.fail("the other leaves %q", left)
		}
	}
	e.phase("the other's Observe", e.observe(other, *s)[0].Phase, provisioner.PhaseAbsent, provisioner.PhaseUnknown)
	clean()
	untouched("Deprovision of what it never had")

	// A backend with one space of names may refuse the second of one name. It must not take it over.
	both := false
	for range e.b.Calls {
		e.claim(e.b.OtherName, s)
		o, err := e.call(context.Background(), other, opReconcile, s)
		if both = err == nil && o.Phase == provisioner.PhaseReady; err != nil || both {
			break
		}
		if e.b.Elapse != nil {
			e.b.Elapse()
		}
	}
	untouched("Reconcile")
	e.claim(e.b.OtherName, s)
	_, _ = e.call(context.Background(), other, opHibernate, s)
	untouched("Hibernate")
	clean()
	untouched("Deprovision")

	if both {
		e.claim(e.b.OtherName, s)
		e.arrive(other, opReconcile, s)
		theirs := e.b.Inspect(e.b.OtherName, s.ID)
		e.remove(p, r)
		if now := e.b.Inspect(e.b.OtherName, s.ID); !slices.Equal(now, theirs) || len(theirs) == 0 {
			e.fail("Deprovision turns the other's %q into %q", theirs, now)
		}
		clean()
		return
	}
	e.remove(p, r)
}

func invalidArgs(e *env) {
	p := e.open()
	want := e.reference(e.b.Args, false)
	for _, args := range append(slices.Clone(e.b.Invalid), json.RawMessage(`[1]`), json.RawMessage(`{`)) {
		e.during(string(args), func() {
			r := e.resource(args)
			e.claim(e.b.Name, r)
			if _, err := e.call(context.Background(), p, opReconcile, r); !errors.Is(err, provisioner.ErrInvalid) {
				e.fail("Reconcile says %v, want an ErrInvalid", err)
			}
			e.holds(r.ID, nil)
			e.remove(p, r) // delete works in every state

			r = e.ready(p)
			r.Args = args
			e.claim(e.b.Name, r)
			if _, err := e.call(context.Background(), p, opReconcile, r); !errors.Is(err, provisioner.ErrInvalid) {
				e.fail("Reconcile of what is ready says %v, want an ErrInvalid", err)
			}
			e.holds(r.ID, want)
			e.arrive(p, opHibernate, r) // and so does stop
			e.remove(p, r)
		})
	}
}

func argsOfANewerProcess(e *env) {
	var args map[string]json.RawMessage
	if err := json.Unmarshal(e.b.Args, &args); err != nil {
		e.fail("Backend.Args is not an object: %v", err)
	}
	args["key_of_a_newer_process"] = json.RawMessage(`{"x": [1]}`)
	p := e.open()
	r := e.make(p, provisioner.Encode(args))
	e.holds(r.ID, e.reference(e.b.Args, false))
	e.remove(p, r)
}

func repair(e *env) {
	if e.b.Lose == nil {
		return
	}
	p := e.open()
	want := e.reference(e.b.Args, false)
	r := e.ready(p)
	e.b.Lose(e.b.Name, r.ID)
	if o := e.observe(p, *r)[0]; o.Phase == provisioner.PhaseReady && len(o.Drift) == 0 {
		e.fail("Observe says ready of what lost a part, without drift")
	}
	e.claim(e.b.Name, r)
	e.arrive(p, opReconcile, r)
	e.holds(r.ID, want)
	e.remove(p, r)
}

func concurrent(e *env) {
	p := e.open()
	want := e.reference(e.b.Args, false)
	n := min(e.b.Room, 16)
	ids := make([]uuid.UUID, n)
	errs := make([]error, n+1)
	var work, all sync.WaitGroup
	ready := make(chan struct{})
	for i := range n {
		work.Add(1)
		all.Add(1)
		go func() {
			defer all.Done()
			var once sync.Once
			arrived := func() { once.Do(work.Done) }
			defer arrived()
			errs[i] = trial{"", func(e *env) {
				r := e.ready(p)
				ids[i] = r.ID
				e.holds(r.ID, want)
				arrived()
				<-ready // all of them are there at once
				e.phase("Observe", e.observe(p, *r)[0].Phase, provisioner.PhaseReady)
				e.claim(e.b.Name, r)
				e.arrive(p, opHibernate, r)
				e.claim(e.b.Name, r)
				e.arrive(p, opReconcile, r)
				e.holds(r.ID, want)
				e.remove(p, r)
			}}.try(e.b, e.h)
		}()
	}
	stop := make(chan struct{})
	var looks sync.WaitGroup
	looks.Add(1)
	go func() {
		defer looks.Done()
		errs[n] = trial{"", func(e *env) {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := p.Check(context.Background()); err != nil {
					e.fail("Check beside other calls: %v", err)
				}
				e.observe(p, *e.resource(e.b.Args))
			}
		}}.try(e.b, e.h)
	}()
	work.Wait()
	close(ready)
	all.Wait()
	close(stop)
	looks.Wait()
	if err := errors.Join(errs...); err != nil {
		e.fail("beside others: %v", err)
	}
	for _, id := range ids {
		e.holds(id, nil)
	}
}
