package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"berth/db/dbsqlc"
	"berth/internal/defaults"
	"berth/jobs"
)

// A lease is on its way back: the run that had it stores no outcome.
type lease struct {
	id    uuid.UUID
	fence uuid.UUID
	notes json.RawMessage // the state to be kept; nil: as it was
}

// giveBack ends leases by their fences and has the places driven, however long it takes until the leases end by themselves.
// Nothing is counted against the places.
func (e *Engine) giveBack(leases ...lease) {
	e.parked.Go(func() { e.handBack(leases) })
}

// giveBackUnanswered does it for claims whose answer was lost. The server may still be about to make them, so it is done more
// than once.
func (e *Engine) giveBackUnanswered(leases []lease) {
	e.parked.Go(func() {
		e.handBack(leases)
		for _, later := range []time.Duration{defaults.ParkPause, defaults.Alive, defaults.CommitBudget} {
			if !pause(e.looping, later) {
				return // the process ends; so do its leases
			}
			e.handBack(leases)
		}
	})
}

func (e *Engine) handBack(leases []lease) {
	for begun := time.Now(); len(leases) > 0 && time.Since(begun) < defaults.Lease; {
		left, err := e.giveBackOnce(e.serving, leases)
		if err == nil && len(left) == 0 {
			return
		}
		if leases = left; !pause(e.serving, defaults.ParkPause) {
			break
		}
	}
	e.giveBackLast(leases)
}

// giveBackLast tries once more, even if the process is about to end.
func (e *Engine) giveBackLast(leases []lease) {
	left, err := e.giveBackOnce(context.WithoutCancel(e.serving), leases)
	if len(left) > 0 {
		e.log.Warn("leases could not be given back", slog.Int("places", len(left)), slog.Any("error", err))
	}
}

// giveBackOnce returns what someone holds, or all of it with an error.
func (e *Engine) giveBackOnce(ctx context.Context, leases []lease) (left []lease, err error) {
	ctx, cancel := context.WithTimeout(ctx, defaults.ConnectTimeout)
	defer cancel()
	p := &dbsqlc.PlaceGiveBackParams{Grace: defaults.Grace}
	by := make(map[uuid.UUID]lease, len(leases))
	for _, l := range leases {
		by[l.fence] = l
		p.Ids, p.Fences, p.States = append(p.Ids, l.id), append(p.Fences, l.fence), append(p.States, l.notes)
	}
	err = e.apart(ctx, func(tx pgx.Tx) error {
		if err := e.q.PlaceGiveBack(ctx, tx, p); err != nil {
			return fmt.Errorf("give leases back: %w", err)
		}
		rows, err := e.q.PlaceWaiting(ctx, tx, p.Ids) // what was never claimed too
		if err != nil {
			return fmt.Errorf("look what is to be driven: %w", err)
		}
		wakes := make([]jobs.Wake, len(rows))
		for i, r := range rows {
			wakes[i] = wake(r.ID, r.Provisioner, r.DeploymentID, r.DesiredPhase, r.Background)
		}
		held, err := e.q.PlaceHolds(ctx, tx, &dbsqlc.PlaceHoldsParams{Ids: p.Ids, Fences: p.Fences})
		if err != nil {
			return fmt.Errorf("look which leases hold: %w", err)
		}
		for _, fence := range held {
			left = append(left, by[fence])
		}
		return e.lifecycle.Jobs().Wake(ctx, tx, wakes)
	})
	if err != nil {
		return leases, err
	}
	return left, nil
}
