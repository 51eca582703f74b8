package reconcile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"berth/internal/defaults"
	"berth/provisioner"
)

// errPanic: the backend's code failed.
var errPanic = errors.New("the provisioner's code failed")

// errSlow ends a call that takes too long.
var errSlow = fmt.Errorf("no answer within %s", defaults.CallTimeout)

// call has the backend take a step with a place, outside any transaction. It returns nil if the run was cut off.
func (e *Engine) call(ctx context.Context, b *backend, p *place) *outcome {
	if p.takenOver && p.lost >= defaults.MaxLost {
		return setAside(p)
	}
	cc, cancel := context.WithTimeoutCause(ctx, defaults.CallTimeout, errSlow)
	defer cancel()
	r := p.resource()
	seen, err := e.step(cc, b, p.desired, r)
	if ctx.Err() != nil && (err != nil || seen.Phase != p.desired) {
		return nil
	}
	if err != nil && cc.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(cc), err)
	}
	o := verdict(e.life.now(), b, p, seen, err)
	o.state, o.config = p.state, p.config
	for _, kept := range []struct {
		what string
		new  json.RawMessage
		to   *json.RawMessage
	}{{"state", r.State, &o.state}, {"config", r.Config, &o.config}} {
		if len(kept.new) == 0 {
			*kept.to = json.RawMessage(`{}`)
			continue
		}
		if why := unstorable(kept.new); why != "" {
			e.log.Error("a provisioner returned what can not be stored", slog.String("resource_id", p.id.String()), slog.String("provisioner", p.provisioner),
				slog.String("what", kept.what), slog.String("why", why))
			o = verdict(e.life.now(), b, p, provisioner.Observation{Reason: "Unstorable"}, fmt.Errorf("the %s that it returned can not be stored: %s", kept.what, why))
			o.state, o.config = p.state, p.config
			return o
		}
		*kept.to = kept.new
	}
	// A value noted before its first use outside: the next step is taken at once.
	o.again = err == nil && !o.met && !o.gone && seen.After == 0 && !bytes.Equal(p.state, r.State)
	return o
}

// step is one call to the backend. A panic is an error of this one.
func (e *Engine) step(ctx context.Context, b *backend, desired provisioner.Phase, r *provisioner.Resource) (seen provisioner.Observation, err error) {
	defer func() {
		if v := recover(); v != nil {
			e.log.Error("panic in a provisioner", slog.String("resource_id", r.ID.String()), slog.String("provisioner", b.name),
				slog.String("panic", clean(fmt.Sprint(v))), slog.String("stack", string(debug.Stack())))
			seen, err = provisioner.Observation{Reason: "Panic"}, fmt.Errorf("%w: %v", errPanic, v)
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

// unstorable says why a row can not hold what a backend wants kept, or nothing.
func unstorable(raw json.RawMessage) string {
	var object map[string]json.RawMessage
	switch {
	case len(raw) > defaults.MaxNotes:
		return fmt.Sprintf("%d bytes are more than %d", len(raw), defaults.MaxNotes)
	case json.Unmarshal(raw, &object) != nil || object == nil:
		return "it is not a JSON object"
	case bytes.Contains(raw, []byte(`\u0000`)) || bytes.IndexByte(raw, 0) >= 0:
		return "it holds a NUL character"
	}
	return ""
}
