package provisionertest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"berth/provisioner"
)

// env is what a case works with. Its methods end the case at the first thing that is wrong, by panicking with a failure: so a
// case can be run without a testing.T, and the suite itself can be tried on broken backends.
type env struct {
	b     *Backend
	h     Harness
	doing []string // what is being tried, for the failure
}

type failure struct{ error }

// try runs a case and returns what is wrong.
func (c trial) try(b *Backend, h Harness) (err error) {
	if b.Calls == 0 {
		b.Calls = 20
	}
	if b.Room == 0 {
		b.Room = 16
	}
	h.Patience = cmp.Or(h.Patience, 10*time.Second)
	e := &env{b: b, h: h}
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.error
		default:
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	c.run(e)
	return nil
}

func (e *env) fail(format string, args ...any) {
	panic(failure{errors.New(strings.Join(append(slices.Clone(e.doing), fmt.Sprintf(format, args...)), ": "))})
}

// during names what f tries, for its failures.
func (e *env) during(what string, f func()) {
	e.doing = append(e.doing, what)
	f()
	e.doing = e.doing[:len(e.doing)-1]
}

func (e *env) open() provisioner.Provisioner { return e.b.Open() }

// An op is one of the three calls that change something.
type op struct {
	name string
	want provisioner.Phase
	call func(provisioner.Provisioner, context.Context, *provisioner.Resource) (provisioner.Observation, error)
}

var (
	opReconcile   = op{"Reconcile", provisioner.PhaseReady, provisioner.Provisioner.Reconcile}
	opHibernate   = op{"Hibernate", provisioner.PhaseHibernated, provisioner.Provisioner.Hibernate}
	opDeprovision = op{"Deprovision", provisioner.PhaseAbsent, provisioner.Provisioner.Deprovision}
)

// resource makes a resource that nothing is known of yet.
func (e *env) resource(args json.RawMessage) *provisioner.Resource {
	return &provisioner.Resource{ID: uuid.New(), Type: e.b.Type, Args: slices.Clone(args)}
}

// claim gives r a new fence that is the current one.
func (e *env) claim(name string, r *provisioner.Resource) {
	r.Fence = uuid.New()
	if e.b.Claim != nil {
		e.b.Claim(name, r)
	}
}

var errKilled = errors.New("the process was killed")

type outcome struct {
	o        provisioner.Observation
	err      error
	panicked any
	stack    []byte
}

// call makes one call as the engine does: what it set on the resource counts unless the process was killed in it.
func (e *env) call(ctx context.Context, p provisioner.Provisioner, do op, r *provisioner.Resource) (provisioner.Observation, error) {
	done := e.start(ctx, p, do, r)
	return e.finish(do, r, done)
}

type running struct {
	done   chan outcome
	before provisioner.Resource
	after  *provisioner.Resource
}

func (e *env) start(ctx context.Context, p provisioner.Provisioner, do op, r *provisioner.Resource) running {
	c := running{done: make(chan outcome, 1), before: clone(*r)}
	copied := clone(*r)
	c.after = &copied
	go func() {
		var out outcome
		defer func() {
			if out.panicked = recover(); out.panicked != nil {
				out.stack = debug.Stack()
			}
			c.done <- out
		}()
		out.o, out.err = do.call(p, ctx, c.after)
	}()
	return c
}

func (e *env) finish(do op, r *provisioner.Resource, c running) (provisioner.Observation, error) {
	var out outcome
	select {
	case out = <-c.done:
	case <-time.After(e.h.Patience):
		e.fail("%s does not end", do.name)
	}
	if _, ok := out.panicked.(kill); ok {
		return provisioner.Observation{}, errKilled
	}
	if out.panicked != nil {
		e.fail("%s panics: %v\n%s", do.name, out.panicked, out.stack)
	}
	e.lawful(do, c.before, *c.after, out)
	r.State, r.Config = c.after.State, c.after.Config
	return out.o, out.err
}

var word = regexp.MustCompile(`\A[A-Z][A-Za-z0-9]*\z`)

// lawful checks what holds for the result of every call.
func (e *env) lawful(do op, before, after provisioner.Resource, out outcome) {
	if before.ID != after.ID || before.Type != after.Type || before.Name != after.Name || before.Fence != after.Fence {
		e.fail("%s changes what identifies the resource", do.name)
	}
	if !bytes.Equal(before.Args, after.Args) {
		e.fail("%s changes the args from %s to %s", do.name, before.Args, after.Args)
	}
	for what, raw := range map[string]json.RawMessage{"state": after.State, "config": after.Config} {
		if len(raw) > 0 && !json.Valid(raw) {
			e.fail("%s sets a %s that is not JSON: %q", do.name, what, raw)
		}
		if len(raw) > 1<<20 {
			e.fail("%s sets a %s of %d bytes", do.name, what, len(raw))
		}
	}
	if out.err != nil && len(before.State) > 0 && len(after.State) == 0 {
		e.fail("%s forgets the state together with its error: %v", do.name, out.err)
	}
	e.lawfulObservation(do.name, out.o)
	if out.err == nil && (out.o.Phase == provisioner.PhaseUnknown || out.o.Phase == "") {
		e.fail("%s does not know the phase and returns no error", do.name)
	}
	e.oneClass(do.name, out.err)
}

func (e *env) lawfulObservation(what string, o provisioner.Observation) {
	switch o.Phase {
	case "", provisioner.PhaseUnknown, provisioner.PhaseAbsent, provisioner.PhasePending, provisioner.PhaseReady, provisioner.PhaseHibernated:
	default:
		e.fail("%s returns a phase that does not exist: %q", what, o.Phase)
	}
	if o.Reason != "" && !word.MatchString(o.Reason) {
		e.fail("%s returns a reason that is not one CamelCase word: %q", what, o.Reason)
	}
	if strings.ContainsAny(o.Message, "\n\r\x00") {
		e.fail("%s returns a message that is not one line: %q", what, o.Message)
	}
	if o.After < 0 {
		e.fail("%s returns a negative time: %s", what, o.After)
	}
}

// oneClass checks that an error is of one class at most.
func (e *env) oneClass(what string, err error) {
	var of []string
	for _, class := range []error{provisioner.ErrInvalid, provisioner.ErrNoCapacity, provisioner.ErrUnavailable} {
		if errors.Is(err, class) {
			of = append(of, class.Error())
		}
	}
	if len(of) > 1 {
		e.fail("%s returns an error of several classes (%s): %v", what, strings.Join(of, ", "), err)
	}
}

// arrive repeats a call until it is where it is to be. No error is allowed.
func (e *env) arrive(p provisioner.Provisioner, do op, r *provisioner.Resource) provisioner.Observation {
	for range e.b.Calls {
		o, err := e.call(context.Background(), p, do, r)
		if err != nil {
			e.fail("%s: %v", do.name, err)
		}
		if o.Phase == do.want {
			e.arrived(do, r)
			return o
		}
		if e.b.Elapse != nil {
			e.b.Elapse()
		}
	}
	e.fail("%s has not arrived at %s after %d calls", do.name, do.want, e.b.Calls)
	return provisioner.Observation{}
}

// arrived checks what a settled resource has to say.
func (e *env) arrived(do op, r *provisioner.Resource) {
	if do.name != opReconcile.name || r.Type != provisioner.Runtime {
		return
	}
	args, err := provisioner.Decode[provisioner.RuntimeArgs](r.Args)
	if err != nil {
		e.fail("args: %v", err)
	}
	config, err := provisioner.Decode[provisioner.RuntimeConfig](r.Config)
	if err != nil {
		e.fail("config: %v", err)
	}
	if config.Host == "" || config.Audience == "" || config.Slots != args.Slots || config.CPU == 0 || config.MemoryGB == 0 || config.StorageBytes == 0 {
		e.fail("ready, but the config does not say so: asked %s, config %s", r.Args, r.Config)
	}
}

// make brings a resource to ready at the provisioner under test.
func (e *env) make(p provisioner.Provisioner, args json.RawMessage) *provisioner.Resource {
	r := e.resource(args)
	e.claim(e.b.Name, r)
	e.arrive(p, opReconcile, r)
	return r
}

// remove takes a resource away and proves that nothing of it is left.
func (e *env) remove(p provisioner.Provisioner, r *provisioner.Resource) {
	e.claim(e.b.Name, r)
	e.arrive(p, opDeprovision, r)
	e.holds(r.ID, nil)
}

func (e *env) inspect(id uuid.UUID) []string { return e.b.Inspect(e.b.Name, id) }

// holds proves that exactly this exists outside for the resource.
func (e *env) holds(id uuid.UUID, want []string) {
	if got := e.inspect(id); !slices.Equal(got, want) {
		e.fail("outside is %q, want %q", got, want)
	}
}

func (e *env) data(id uuid.UUID) string {
	if e.b.Data == nil {
		return ""
	}
	return e.b.Data(e.b.Name, id)
}

// keeps proves that the data is still what it was.
func (e *env) keeps(id uuid.UUID, want string) {
	if got := e.data(id); got != want {
		e.fail("the data is %q, was %q", got, want)
	}
}

// reference is what exists outside for an uninterrupted resource, so as to compare.
func (e *env) reference(args json.RawMessage, hibernated bool) []string {
	p := e.open()
	r := e.make(p, args)
	if hibernated {
		e.claim(e.b.Name, r)
		e.arrive(p, opHibernate, r)
	}
	want := e.inspect(r.ID)
	e.remove(p, r)
	return want
}

func (e *env) observe(p provisioner.Provisioner, rs ...provisioner.Resource) []provisioner.Observation {
	got, err := p.Observe(context.Background(), rs)
	if err != nil {
		e.fail("Observe: %v", err)
	}
	if len(got) != len(rs) {
		e.fail("Observe has %d entries for %d resources", len(got), len(rs))
	}
	for _, o := range got {
		e.lawfulObservation("Observe", o)
	}
	return got
}

func (e *env) phase(what string, got provisioner.Phase, want ...provisioner.Phase) {
	if !slices.Contains(want, got) {
		e.fail("%s says %q, want one of %q", what, got, want)
	}
}

func clone(r provisioner.Resource) provisioner.Resource {
	r.Args, r.State, r.Config = slices.Clone(r.Args), slices.Clone(r.State), slices.Clone(r.Config)
	return r
}
