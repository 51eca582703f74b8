package provisionertest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"berth/provisioner"
)

// A Fake is a provisioner in memory that keeps the contract, unless a script says otherwise. What it makes stands in its World.
// Its own fields are set before it is used. Safe for concurrent use.
//
// It has every optional ability; struct{ provisioner.Provisioner }{fake} has none.
//
// Args of any type may hold "slots" (1 if they do not); fewer than 1, or more than the world's whole room, is invalid.
type Fake struct {
	Name        string
	World       *World
	Types       []provisioner.ResourceType // none: runtime
	Timeout     time.Duration
	Concurrency int
	// Looks is how many calls find a new instance on its way before it is ready.
	Looks int
	// Private makes it create a password first, which it returns in the state with PhasePending before it uses it.
	Private bool
	// Hook, if set, is told of each call before it does anything. It may block; its error is returned in place of the call.
	Hook func(ctx context.Context, c Call) error
	// Steps, if set, is where each exchange with the World goes through.
	Steps *Steps

	mu     sync.Mutex
	calls  []Call
	counts map[countKey]int
	script map[countKey][]Step
	always map[countKey]Step
	moved  chan struct{} // closed and replaced at each call
	active int           // calls of Activate
}

type countKey struct {
	op Op
	id uuid.UUID // uuid.Nil: whichever
}

// NewFake makes a fake with a world of its own.
func NewFake(name string, types ...provisioner.ResourceType) *Fake {
	return &Fake{Name: name, World: NewWorld(), Types: types}
}

// Script queues steps for the next calls of a method, one each. Of Observe, a step stands for the entries one by one.
func (f *Fake) Script(op Op, steps ...Step) { f.ScriptFor(op, uuid.Nil, steps...) }

// ScriptFor queues steps for the next calls of a method on one resource. They go before those of Script.
func (f *Fake) ScriptFor(op Op, id uuid.UUID, steps ...Step) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.script == nil {
		f.script = map[countKey][]Step{}
	}
	key := countKey{op, id}
	f.script[key] = append(f.script[key], steps...)
}

// Always sets the step of every call of a method for which nothing is queued; nil ends it. With id uuid.Nil it is for every
// resource that has none of its own.
func (f *Fake) Always(op Op, id uuid.UUID, step Step) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.always == nil {
		f.always = map[countKey]Step{}
	}
	f.always[countKey{op, id}] = step
}

// Calls returns the calls so far, in the order in which they began.
func (f *Fake) Calls() []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

// Count returns how many calls of a method began.
func (f *Fake) Count(op Op) int { return f.CountFor(op, uuid.Nil) }

// CountFor returns how many calls of a method on one resource began.
func (f *Fake) CountFor(op Op, id uuid.UUID) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[countKey{op, id}]
}

// Await returns once n calls of a method began, of one resource or, with uuid.Nil, of any; or when the context ends.
func (f *Fake) Await(ctx context.Context, op Op, id uuid.UUID, n int) error {
	for {
		f.mu.Lock()
		enough := f.counts[countKey{op, id}] >= n
		if f.moved == nil {
			f.moved = make(chan struct{})
		}
		moved := f.moved
		f.mu.Unlock()
		if enough {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// note records a call and finds its step.
func (f *Fake) note(c Call) (Call, Step) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts == nil {
		f.counts = map[countKey]int{}
	}
	f.counts[countKey{c.Op, uuid.Nil}]++
	if c.ID != uuid.Nil {
		f.counts[countKey{c.Op, c.ID}]++
	}
	c.Number = f.counts[countKey{c.Op, c.ID}]
	f.calls = append(f.calls, c)
	if f.moved != nil {
		close(f.moved)
		f.moved = nil
	}
	return c, f.step(c.Op, c.ID)
}

// step takes the next step off the script. It is called with mu held.
func (f *Fake) step(op Op, id uuid.UUID) Step {
	keys := []countKey{{op, id}, {op, uuid.Nil}}
	for _, key := range keys {
		if queue := f.script[key]; len(queue) > 0 {
			f.script[key] = queue[1:]
			return queue[0]
		}
	}
	for _, key := range keys {
		if step := f.always[key]; step != nil {
			return step
		}
	}
	return Normal()
}

// run is one call: noted, told to the hook, and done as scripted.
func (f *Fake) run(ctx context.Context, op Op, r *provisioner.Resource, do Do) (provisioner.Observation, error) {
	c, step := f.note(Call{Op: op, Provisioner: f.Name, ID: r.ID, Type: r.Type, Fence: r.Fence, Args: slices.Clone(r.Args)})
	defer f.World.begin(c)()
	if f.Hook != nil {
		if err := f.Hook(ctx, c); err != nil {
			return provisioner.Observation{Phase: provisioner.PhaseUnknown}, err
		}
	}
	return step(ctx, c, do)
}

// Info tells the types and bounds that were set.
func (f *Fake) Info() provisioner.Info {
	types := f.Types
	if len(types) == 0 {
		types = []provisioner.ResourceType{provisioner.Runtime}
	}
	return provisioner.Info{Types: types, Timeout: f.Timeout, Concurrency: f.Concurrency}
}

// Reconcile makes the resource, or repairs it, resizes it, wakes it.
func (f *Fake) Reconcile(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
	return f.run(ctx, Reconcile, r, func(ctx context.Context) (provisioner.Observation, error) { return f.reconcile(ctx, r) })
}

// Hibernate removes the instance and keeps the disk.
func (f *Fake) Hibernate(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
	return f.run(ctx, Hibernate, r, func(ctx context.Context) (provisioner.Observation, error) { return f.hibernate(ctx, r) })
}

// Deprovision removes everything of this name's.
func (f *Fake) Deprovision(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
	return f.run(ctx, Deprovision, r, func(ctx context.Context) (provisioner.Observation, error) { return f.deprovision(ctx, r) })
}

// Reserve holds the slots that the args ask for.
func (f *Fake) Reserve(ctx context.Context, r *provisioner.Resource) error {
	_, err := f.run(ctx, Reserve, r, func(ctx context.Context) (provisioner.Observation, error) {
		return provisioner.Observation{}, f.reserve(ctx, r)
	})
	return err
}

// Observe looks at each resource.
func (f *Fake) Observe(ctx context.Context, rs []provisioner.Resource) ([]provisioner.Observation, error) {
	c, step := f.note(Call{Op: Observe, Provisioner: f.Name, Batch: len(rs)})
	if f.Hook != nil {
		if err := f.Hook(ctx, c); err != nil {
			return nil, err
		}
	}
	seen := make([]provisioner.Observation, len(rs))
	for i := range rs {
		one := step
		if own := f.own(Observe, rs[i].ID); own != nil {
			one = own
		}
		c := c
		c.ID, c.Type = rs[i].ID, rs[i].Type
		o, err := one(ctx, c, func(ctx context.Context) (provisioner.Observation, error) { return f.look(ctx, &rs[i]) })
		if err != nil {
			return nil, err
		}
		seen[i] = o
	}
	return seen, nil
}

// own is the step for this very resource.
func (f *Fake) own(op Op, id uuid.UUID) Step {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := countKey{op, id}
	if queue := f.script[key]; len(queue) > 0 {
		f.script[key] = queue[1:]
		return queue[0]
	}
	return f.always[key]
}

// Check reports the room of the world.
func (f *Fake) Check(ctx context.Context) (provisioner.Capacity, error) {
	c, step := f.note(Call{Op: Check, Provisioner: f.Name})
	if f.Hook != nil {
		if err := f.Hook(ctx, c); err != nil {
			return provisioner.Capacity{}, err
		}
	}
	var capacity provisioner.Capacity
	_, err := step(ctx, c, func(ctx context.Context) (provisioner.Observation, error) {
		var err error
		capacity, err = f.check(ctx)
		return provisioner.Observation{}, err
	})
	return capacity, err
}
