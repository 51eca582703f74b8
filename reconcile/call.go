package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"berth/internal/defaults"
	"berth/provisioner"
)

var (
	// errPanic: the backend's code failed.
	errPanic = errors.New("the provisioner's code failed")
	// errSlow ends a call that takes too long.
	errSlow = errors.New("no answer in time")
)

// call has the backend take a step with a place, outside any transaction. The outcome of a run that was cut off before anything
// was learned, by a shutdown, the end of the lease or a person who cancelled the job, is nil; notes are what is to be kept of it.
func (e *Engine) call(ctx context.Context, b *backend, p *place) (o *outcome, notes json.RawMessage) {
	if p.takenOver && p.lost >= defaults.MaxLost {
		return setAside(p), nil
	}
	cc, cancel := context.WithTimeoutCause(ctx, e.callTimeout, fmt.Errorf("%w: %s have passed", errSlow, e.callTimeout))
	defer cancel()
	r := p.resource()
	cc, span := traced(cc, p)
	defer func() { endSpan(span, o) }()
	seen, err := e.step(cc, b, p.desired, r)
	slow := errors.Is(context.Cause(cc), errSlow)
	if ctx.Err() != nil && !slow && (err != nil || seen.Phase != p.desired) {
		if len(r.State) > 0 && unstorable(r.State) == "" {
			notes = r.State
		}
		return nil, notes
	}
	if err != nil && slow {
		err = fmt.Errorf("%w: %w", context.Cause(cc), err)
	}
	o = e.judge(b, p, seen, err)
	o.state, o.config = kept(r.State), kept(r.Config)
	if o.gone { // nothing is left to note
		o.state, o.config = p.state, p.config
	}
	for what, raw := range map[string]json.RawMessage{"state": o.state, "config": o.config} {
		if why := unstorable(raw); why != "" {
			o.refuse("the " + what + " that the provisioner returned can not be stored: " + why)
			e.log.Error("a provisioner returned what can not be stored", slog.String("resource_id", p.id.String()), slog.String("provisioner", p.provisioner),
				slog.String("what", what), slog.String("why", why))
			return o, nil
		}
	}
	// A value noted before its first use outside: the next step is taken at once. Past the deadline that is no longer believed: some
	// backend may note something new each time.
	o.again = err == nil && !o.met && seen.After == 0 && !p.overdue
	return o, nil
}

// kept is what a row holds for what a backend wants kept.
func kept(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage(`{}`)
	}
	return raw
}

// step is one call to the backend. A panic is an error of this one.
func (e *Engine) step(ctx context.Context, b *backend, desired provisioner.Phase, r *provisioner.Resource) (seen provisioner.Observation, err error) {
	defer func() {
		if v := recover(); v != nil {
			seen, err = e.panicked(b, r.ID.String(), v)
		}
	}()
	switch desired {
	case provisioner.PhaseHibernated:
		return b.Hibernate(ctx, r)
	case provisioner.PhaseAbsent:
		return b.Deprovision(ctx, r)
	}
	return b.Reconcile(ctx, r)
}

// judge is the verdict. An error is the backend's code too: its methods may panic.
func (e *Engine) judge(b *backend, p *place, seen provisioner.Observation, err error) (o *outcome) {
	defer func() {
		if v := recover(); v != nil {
			seen, err := e.panicked(b, p.id.String(), v)
			o = verdict(e.life.now(), b, p, seen, err)
		}
	}()
	return verdict(e.life.now(), b, p, seen, err)
}

func (e *Engine) panicked(b *backend, id string, v any) (provisioner.Observation, error) {
	text := clean(fmt.Sprint(v))
	e.log.Error("panic in a provisioner", slog.String("resource_id", id), slog.String("provisioner", b.name),
		slog.String("panic", text), slog.String("stack", string(debug.Stack())))
	return provisioner.Observation{Reason: "Panic"}, fmt.Errorf("%w: %s", errPanic, text)
}
