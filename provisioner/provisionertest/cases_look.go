package provisionertest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"berth/provisioner"
)

func observeInOrder(e *env) {
	p, other := e.open(), e.b.OpenOther()
	there, never, parked := e.ready(p), e.resource(e.b.Args), e.hibernated(p)
	elsewhere := e.resource(e.b.Args)
	e.claim(e.b.OtherName, elsewhere)
	e.arrive(other, opReconcile, elsewhere)
	before := [][]string{e.inspect(there.ID), e.inspect(parked.ID), e.b.Inspect(e.b.OtherName, elsewhere.ID)}

	want := map[*provisioner.Resource][]provisioner.Phase{
		there:     {provisioner.PhaseReady},
		never:     {provisioner.PhaseAbsent},
		parked:    {provisioner.PhaseHibernated, provisioner.PhaseReady},
		elsewhere: {provisioner.PhaseAbsent},
	}
	for _, order := range [][]*provisioner.Resource{
		{}, {never}, {there}, {there, never, parked, elsewhere}, {elsewhere, parked, never, there}, {never, there, there, never},
	} {
		e.during(fmt.Sprintf("a batch of %d", len(order)), func() {
			rs, given := make([]provisioner.Resource, len(order)), make([]provisioner.Resource, len(order))
			for i, r := range order {
				rs[i], given[i] = clone(*r), clone(*r)
			}
			for i, o := range e.observe(p, rs...) {
				e.phase(fmt.Sprintf("entry %d", i), o.Phase, want[order[i]]...)
			}
			if !reflect.DeepEqual(rs, given) {
				e.fail("Observe changes the resources that it is given")
			}
		})
	}
	e.during("a batch of 500", func() {
		rs := make([]provisioner.Resource, 500)
		for i := range rs {
			rs[i] = *e.resource(e.b.Args)
		}
		rs[499] = *there
		for i, o := range e.observe(p, rs...) {
			expected := provisioner.PhaseAbsent
			if i == 499 {
				expected = provisioner.PhaseReady
			}
			e.phase(fmt.Sprintf("entry %d", i), o.Phase, expected)
		}
	})
	for i, now := range [][]string{e.inspect(there.ID), e.inspect(parked.ID), e.b.Inspect(e.b.OtherName, elsewhere.ID)} {
		if !slices.Equal(now, before[i]) {
			e.fail("Observe changes what is outside from %q to %q", before[i], now)
		}
	}
	e.holds(never.ID, nil)
	e.remove(p, there)
	e.remove(p, parked)
	e.claim(e.b.OtherName, elsewhere)
	e.arrive(other, opDeprovision, elsewhere)
}

// observeInterrupted: what could not be looked at is unknown, and what is said of the rest is true.
func observeInterrupted(e *env) {
	p := e.open()
	there, never := e.ready(p), e.resource(e.b.Args)
	rs := []provisioner.Resource{*there, *never}
	truth := []provisioner.Phase{provisioner.PhaseReady, provisioner.PhaseAbsent}
	e.b.Steps.reset()
	e.observe(p, rs...)
	names := e.b.Steps.seen()
	if len(names) == 0 {
		e.fail("Observe does not look at the world: no exchange goes through Backend.Steps")
	}
	for at, name := range names {
		for _, how := range []manner{refused, replyLost, cut, hung} {
			e.during(fmt.Sprintf("exchange %d (%s) %s", at, name, how), func() {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				i := e.b.Steps.arm(at, how, cancel)
				go func() {
					select {
					case <-i.reached:
						if how == hung {
							cancel()
						}
					case <-ctx.Done():
					}
				}()
				got, err := p.Observe(ctx, rs)
				e.b.Steps.reset()
				if err != nil {
					return
				}
				if len(got) != len(rs) {
					e.fail("Observe has %d entries for %d resources and no error", len(got), len(rs))
				}
				for i, o := range got {
					e.phase(fmt.Sprintf("entry %d", i), o.Phase, truth[i], provisioner.PhaseUnknown, "")
					if o.Phase != truth[i] && o.Reason == "" {
						e.fail("entry %d does not say why it is unknown", i)
					}
				}
			})
		}
	}
	e.remove(p, there)
}

func check(e *env) {
	p := e.open()
	look := func() provisioner.Capacity {
		c, err := p.Check(context.Background())
		if err != nil {
			e.fail("Check: %v", err)
		}
		for _, problem := range c.Problems {
			if problem == "" || strings.ContainsAny(problem, "\n\x00") {
				e.fail("a problem is not one line: %q", problem)
			}
		}
		for _, h := range c.Hosts {
			if h.Name == "" || h.Slots < 0 || h.Used < 0 {
				e.fail("a host that cannot be: %+v", h)
			}
		}
		if c.Slots != nil && *c.Slots < 0 || c.Used != nil && *c.Used < 0 {
			e.fail("negative slots")
		}
		return c
	}
	before := look()
	r := e.ready(p)
	during := look()
	e.remove(p, r)
	after := look()
	if before.Used == nil {
		return
	}
	if during.Used == nil || after.Used == nil || *after.Used != *before.Used || *during.Used <= *before.Used {
		e.fail("the slots used do not follow what is there: %s, with one resource %s, without %s",
			number(before.Used), number(during.Used), number(after.Used))
	}
	if r.Type == provisioner.Runtime {
		args, _ := provisioner.Decode[provisioner.RuntimeArgs](r.Args)
		if *during.Used-*before.Used != args.Slots {
			e.fail("a resource of %d slots uses %d", args.Slots, *during.Used-*before.Used)
		}
	}
}

func number(n *int) string {
	if n == nil {
		return "unknown"
	}
	return fmt.Sprint(*n)
}
