package provisionertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"berth/provisioner"
)

// A scene is a resource brought to where a call is to be tried on it. The result carries the args for that call.
type scene func(p provisioner.Provisioner) *provisioner.Resource

func (e *env) nothing(p provisioner.Provisioner) *provisioner.Resource { return e.resource(e.b.Args) }

func (e *env) ready(p provisioner.Provisioner) *provisioner.Resource { return e.make(p, e.b.Args) }

func (e *env) toGrow(p provisioner.Provisioner) *provisioner.Resource {
	r := e.make(p, e.b.Args)
	r.Args = append(json.RawMessage(nil), e.b.Larger...)
	return r
}

func (e *env) hibernated(p provisioner.Provisioner) *provisioner.Resource {
	r := e.make(p, e.b.Args)
	e.claim(e.b.Name, r)
	e.arrive(p, opHibernate, r)
	return r
}

func interruptedCreate(e *env) {
	e.interrupted(e.nothing, opReconcile, e.reference(e.b.Args, false))
}

func interruptedResize(e *env) {
	if e.b.Larger != nil {
		e.interrupted(e.toGrow, opReconcile, e.reference(e.b.Larger, false))
	}
}

func interruptedHibernate(e *env) {
	e.interrupted(e.ready, opHibernate, e.reference(e.b.Args, true))
}

func interruptedWake(e *env) {
	e.interrupted(e.hibernated, opReconcile, e.reference(e.b.Args, false))
}

func interruptedDeprovision(e *env) {
	e.during("from ready", func() { e.interrupted(e.ready, opDeprovision, nil) })
	e.during("from hibernated", func() { e.interrupted(e.hibernated, opDeprovision, nil) })
}

// exchanges runs the call undisturbed and returns the names of the exchanges that it takes.
func (e *env) exchanges(from scene, do op, want []string) []string {
	p := e.open()
	r := from(p)
	e.claim(e.b.Name, r)
	e.b.Steps.reset()
	e.arrive(p, do, r)
	names := e.b.Steps.seen()
	if len(names) == 0 {
		e.fail("%s does not look at the world: no exchange goes through Backend.Steps", do.name)
	}
	e.holds(r.ID, want)
	e.remove(p, r)
	return names
}

// interrupted tries the call with each of its exchanges interrupted in each manner, and once more after that.
func (e *env) interrupted(from scene, do op, want []string) {
	names := e.exchanges(from, do, want)
	for at, name := range names {
		for _, how := range e.manners(names, at) {
			e.during(fmt.Sprintf("%s with exchange %d (%s) %s", do.name, at, name, how), func() {
				e.interruptedOnce(from, do, want, at, how)
			})
		}
	}
}

func (e *env) interruptedOnce(from scene, do op, want []string, at int, how manner) {
	p := e.open()
	r := from(p)
	data := e.data(r.ID)
	e.claim(e.b.Name, r)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	e.untilInterrupted(ctx, p, do, r, want, e.b.Steps.arm(at, how, cancel))
	e.b.Steps.reset()

	e.during("then by another worker", func() {
		p := e.open()
		e.claim(e.b.Name, r)
		e.arrive(p, do, r)
		e.holds(r.ID, want)
		e.arrive(p, do, r)
		e.holds(r.ID, want)
		if data != "" && do.want != provisioner.PhaseAbsent {
			e.keeps(r.ID, data)
		}
		e.remove(p, r)
	})
}

// untilInterrupted repeats the call until the interruption happened or it arrived, and checks what the interrupted call says.
func (e *env) untilInterrupted(ctx context.Context, p provisioner.Provisioner, do op, r *provisioner.Resource, want []string, i *interruption) {
	for range e.b.Calls {
		o, err := e.call(ctx, p, do, r)
		e.truthful(do, r, o, err, want)
		if i.happened() || o.Phase == do.want && err == nil {
			return
		}
		if err != nil {
			e.fail("before the interruption: %v", err)
		}
		if e.b.Elapse != nil {
			e.b.Elapse()
		}
	}
}

// truthful checks a result that may hold an error against the world.
func (e *env) truthful(do op, r *provisioner.Resource, o provisioner.Observation, err error, want []string) {
	if errors.Is(err, provisioner.ErrInvalid) || errors.Is(err, provisioner.ErrNoCapacity) {
		e.fail("says of an interruption that it is %v", err)
	}
	if o.Phase == provisioner.PhaseAbsent && len(e.inspect(r.ID)) > 0 {
		e.fail("says absent (error: %v), while there is %q", err, e.inspect(r.ID))
	}
	if err == nil && o.Phase == do.want {
		e.holds(r.ID, want)
	}
}

func stateKeptWithError(e *env) {
	// On one resource, each exchange fails in turn. What a call set before its error is what the next one gets.
	want := e.reference(e.b.Args, false)
	for _, how := range []manner{refused, replyLost} {
		e.during("exchanges in turn "+string(how), func() {
			r := e.resource(e.b.Args)
			for at := range e.exchanges(e.nothing, opReconcile, want) {
				p := e.open()
				e.claim(e.b.Name, r)
				ctx, cancel := context.WithCancel(context.Background())
				e.untilInterrupted(ctx, p, opReconcile, r, want, e.b.Steps.arm(at, how, cancel))
				cancel()
				e.b.Steps.reset()
			}
			p := e.open()
			e.claim(e.b.Name, r)
			e.arrive(p, opReconcile, r)
			e.holds(r.ID, want)
			e.remove(p, r)
		})
	}

	for _, do := range []op{opReconcile, opHibernate, opDeprovision} {
		e.during(do.name+" while nothing answers", func() {
			p := e.open()
			r := e.ready(p)
			state := string(r.State)
			e.claim(e.b.Name, r)
			restore := e.outage()
			_, err := e.call(context.Background(), p, do, r)
			restore()
			if err != nil && len(r.State) == 0 && state != "" {
				e.fail("the state is forgotten")
			}
			p = e.open()
			e.claim(e.b.Name, r)
			e.arrive(p, opReconcile, r)
			e.holds(r.ID, want)
			e.remove(p, r)
		})
	}
}

func hangingBackend(e *env) {
	e.during("create", func() { e.hanging(e.nothing, opReconcile, e.reference(e.b.Args, false)) })
	e.during("hibernate", func() { e.hanging(e.ready, opHibernate, e.reference(e.b.Args, true)) })
	e.during("deprovision", func() { e.hanging(e.ready, opDeprovision, nil) })
}

// hanging lets each exchange in turn take until the context ends.
func (e *env) hanging(from scene, do op, want []string) {
	names := e.exchanges(from, do, want)
	for at, name := range names {
		if e.spared(names, at) {
			continue
		}
		e.during(fmt.Sprintf("%s with exchange %d (%s) %s", do.name, at, name, hung), func() {
			p := e.open()
			r := from(p)
			e.claim(e.b.Name, r)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			i := e.b.Steps.arm(at, hung, cancel)
			go func() { // the caller's deadline passes while the exchange hangs
				select {
				case <-i.reached:
					cancel()
				case <-ctx.Done():
				}
			}()
			e.untilInterrupted(ctx, p, do, r, want, i)
			e.b.Steps.reset()

			p = e.open()
			e.claim(e.b.Name, r)
			e.arrive(p, do, r)
			e.holds(r.ID, want)
			e.remove(p, r)
		})
	}
}
