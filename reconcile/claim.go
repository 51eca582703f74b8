package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"berth/db/dbsqlc"
	"berth/internal/defaults"
	"berth/jobs"
)

// errHeld: there is something to do, and someone holds what it needs. Not the same as nothing to do.
var errHeld = errors.New("held by someone")

// claiming is a claim on its way.
type claiming struct {
	id          uuid.UUID
	provisioner string
	fence       uuid.UUID // chosen before the answer, so that a claim without an answer can be given back
	place       *place
	err         error
	done        chan struct{}
}

// claim takes a place, or returns nil if there is nothing to do. A few runs of a process ask again for one that someone holds:
// that is mostly the commit of a sibling. The rest is left to the dispatcher.
func (e *Engine) claim(ctx context.Context, id uuid.UUID, name string) (*place, error) {
	p, err := e.claimOnce(ctx, id, name)
	if !errors.Is(err, errHeld) {
		return p, err
	}
	select {
	case e.waiting <- struct{}{}:
		defer func() { <-e.waiting }()
	default:
		return nil, nil
	}
	pause := defaults.HeldPause
	for try := 0; errors.Is(err, errHeld) && try < defaults.HeldTries; try++ {
		select {
		case <-time.After(pause + rand.N(defaults.HeldPause)):
		case <-ctx.Done():
			return nil, nil
		}
		pause *= 2
		p, err = e.claimOnce(ctx, id, name)
	}
	if errors.Is(err, errHeld) {
		return nil, nil
	}
	return p, err
}

func (e *Engine) claimOnce(ctx context.Context, id uuid.UUID, name string) (*place, error) {
	c := &claiming{id: id, provisioner: name, fence: uuid.New(), done: make(chan struct{})}
	if !e.claims.put(ctx, c) {
		return nil, context.Cause(ctx)
	}
	<-c.done // bounded by the round's own deadline
	return c.place, c.err
}

// claimGroup answers a round of claims.
func (e *Engine) claimGroup(_ context.Context, round []*claiming) {
	defer func() {
		for _, c := range round {
			close(c.done)
		}
	}()
	term, worker, ok := e.life.acting()
	if !ok {
		for _, c := range round {
			c.err = errNotAlive
		}
		return
	}
	ctx, cancel := context.WithTimeout(term, defaults.CommitBudget)
	defer cancel()
	p := &dbsqlc.PlaceClaimParams{
		Worker: worker, Lease: defaults.Lease, Alive: defaults.Alive, TakeOver: e.life.mayTakeOver(), Spread: defaults.LostSpread,
	}
	by := make(map[uuid.UUID]*claiming, len(round))
	for _, c := range round {
		p.Ids, p.Provisioners, p.Fences = append(p.Ids, c.id), append(p.Provisioners, c.provisioner), append(p.Fences, c.fence)
		by[c.fence] = c
	}
	rows, err := e.q.PlaceClaim(ctx, e.pool, p)
	if err != nil { // they may have been claimed all the same
		for _, c := range round {
			c.err = fmt.Errorf("claim: %w", err)
		}
		e.giveBack(p.Ids, p.Fences)
		return
	}
	for _, r := range rows {
		if c := by[r.Fence]; r.Held {
			c.err = errHeld
		} else {
			c.place = claimed(r)
		}
	}
}

// giveBack ends leases by their fences and has the places driven anew, however long it takes until the leases end by
// themselves.
func (e *Engine) giveBack(ids, fences []uuid.UUID) {
	e.parked.Go(func() {
		ctx, cancel := context.WithTimeout(e.serving, defaults.Lease)
		defer cancel()
		for {
			err := e.giveBackOnce(ctx, ids, fences)
			if err == nil {
				return
			}
			select {
			case <-time.After(defaults.ParkPause + rand.N(defaults.ParkPause)):
			case <-ctx.Done():
				e.log.Warn("leases could not be given back", slog.Int("places", len(ids)), slog.Any("error", err))
				return
			}
		}
	})
}

func (e *Engine) giveBackOnce(ctx context.Context, ids, fences []uuid.UUID) error {
	ctx, cancel := context.WithTimeout(ctx, defaults.ConnectTimeout)
	defer cancel()
	return pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
		rows, err := e.q.PlaceGiveBack(ctx, tx, &dbsqlc.PlaceGiveBackParams{Ids: ids, Fences: fences, Grace: defaults.Grace})
		if err != nil {
			return fmt.Errorf("give leases back: %w", err)
		}
		wakes := make([]jobs.Wake, len(rows))
		for i, r := range rows {
			wakes[i] = wake(r.ID, r.Provisioner, r.DeploymentID, r.DesiredPhase, r.Settled)
		}
		return e.lifecycle.Jobs().Wake(ctx, tx, wakes)
	})
}
