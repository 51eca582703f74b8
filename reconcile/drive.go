package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"
)

// turn is how a run comes about.
type turn struct {
	background bool // nobody waits for it
	probe      bool // it is the one try that is made with a backend that does not answer
}

// Drive takes one step with a place, if there is one to take. Nothing to do, a lease that was lost and an outcome that someone
// holds up are no errors: the row says what happens next, whatever becomes of the job.
func (e *Engine) Drive(ctx context.Context, id uuid.UUID, name string) error {
	return e.driveAs(ctx, id, name, turn{})
}

// DriveBackground is Drive for what nobody waits for: it takes no more than its share of the room for calls to a backend.
func (e *Engine) DriveBackground(ctx context.Context, id uuid.UUID, name string) error {
	return e.driveAs(ctx, id, name, turn{background: true})
}

func (e *Engine) driveAs(ctx context.Context, id uuid.UUID, name string, as turn) error {
	b := e.backends[name]
	if b == nil {
		return e.strand(ctx, id, name)
	}
	pass, probe := b.breaker.admit()
	if !pass {
		return nil // it is due when the backend answers again
	}
	if probe {
		as.probe = true
		defer b.breaker.tried(false)
	}
	return e.attempt(ctx, b, id, as)
}

func (e *Engine) attempt(ctx context.Context, b *backend, id uuid.UUID, as turn) error {
	name := b.name
	term, _, ok := e.life.acting()
	if !ok {
		return nil // the dispatcher of a living process sees to it
	}
	p, err := e.claim(ctx, b, id, as)
	switch {
	case errors.Is(err, errNotAlive), err != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return nil
	case err != nil: // given back, if it was made; a retry by the queue would outlive the place
		e.log.Warn("a claim was not answered", slog.String("resource_id", id.String()), slog.String("provisioner", name), slog.Any("error", err))
		return nil
	case p == nil:
		return nil
	}
	if p.takenOver {
		e.takeOvers.Add(1)
		e.log.Info("taken over from a lost worker", slog.String("resource_id", id.String()), slog.String("provisioner", name), slog.Int("lost", p.lost))
	}
	o, notes := e.run(ctx, term, b, p, as)
	if o == nil {
		e.giveBack(lease{p.id, p.fence, notes})
		return nil
	}
	e.store(o)
	return nil
}

// run calls the backend, for which there is room. It ends with its job, with its lease, and with this process's right to act,
// whichever is first.
func (e *Engine) run(ctx, term context.Context, b *backend, p *place, as turn) (o *outcome, notes json.RawMessage) {
	defer b.leave(as.background)
	ctx, cancel := context.WithDeadline(ctx, p.until)
	defer cancel()
	ctx, lapse := context.WithCancelCause(ctx)
	defer lapse(nil)
	defer context.AfterFunc(term, func() { lapse(errNotAlive) })()
	o, notes = e.call(ctx, b, p)
	if o == nil && (errors.Is(context.Cause(ctx), errNotAlive) || !time.Now().Before(p.until)) {
		e.leasesLost.Add(1)
	}
	return o, notes
}
