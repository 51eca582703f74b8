package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"berth/internal/defaults"
)

// Drive takes one step with a place, if there is one to take. Nothing to do, a lease that was lost and an outcome that someone
// holds up are no errors: the row says what happens next, whatever becomes of the job.
func (e *Engine) Drive(ctx context.Context, id uuid.UUID, name string) error {
	b := e.backends[name]
	if b == nil {
		return e.strand(ctx, id, name)
	}
	term, _, ok := e.life.acting()
	if !ok {
		return nil // the dispatcher of a living process sees to it
	}
	if err := b.enter(ctx); err != nil {
		return nil
	}
	defer b.leave()
	end := time.Now().Add(defaults.Lease - defaults.LeaseMargin)
	p, err := e.claim(ctx, id, name)
	switch {
	case errors.Is(err, errNotAlive):
		return nil
	case err != nil:
		return fmt.Errorf("drive %s at %q: %w", id, name, err)
	case p == nil:
		return nil
	}
	if p.takenOver {
		e.log.Info("taken over from a lost worker", slog.String("resource_id", id.String()), slog.String("provisioner", name), slog.Int("lost", p.lost))
	}
	// The run ends with its job, with its lease, and with this process's right to act, whichever is first.
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	ctx, lapse := context.WithCancelCause(ctx)
	defer lapse(nil)
	defer context.AfterFunc(term, func() { lapse(errNotAlive) })()

	o := e.call(ctx, b, p)
	if o == nil { // cut off before anything was learned: by a shutdown, or by a person who cancelled the job
		e.giveBack([]uuid.UUID{p.id}, []uuid.UUID{p.fence})
		return nil
	}
	e.store(o, end)
	return nil
}
