package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"berth/db/dbsqlc"
	"berth/internal/defaults"
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

// claim takes a place, with room for a call to its backend, or returns nil if there is nothing to do. A few runs of a process ask
// again for one that someone holds: that is mostly the commit of a sibling. The rest is left to the dispatcher. Nobody keeps
// others from the backend while it waits.
func (e *Engine) claim(ctx context.Context, b *backend, id uuid.UUID, as turn) (*place, error) {
	wait := defaults.HeldPause
	for try := 0; ; try++ {
		if !b.enter(ctx, as.background) {
			return nil, nil
		}
		if !as.probe && b.breaker.isOpen() { // it may have opened meanwhile
			b.leave(as.background)
			return nil, nil
		}
		p, err := e.claimOnce(ctx, id, b.name)
		if p != nil {
			return p, nil
		}
		b.leave(as.background)
		if !errors.Is(err, errHeld) {
			return nil, err
		}
		if try == 0 {
			select {
			case e.waiting <- struct{}{}:
				defer func() { <-e.waiting }()
			default:
				return nil, nil
			}
		}
		if try == defaults.HeldTries || !pause(ctx, wait) {
			return nil, nil
		}
		wait *= 2
	}
}

func (e *Engine) claimOnce(ctx context.Context, id uuid.UUID, name string) (*place, error) {
	c := &claiming{id: id, provisioner: name, fence: uuid.New(), done: make(chan struct{})}
	until := time.Now().Add(defaults.Lease - defaults.LeaseMargin) // the lease begins later than now
	if !e.claims.put(ctx, c) {
		return nil, context.Cause(ctx)
	}
	<-c.done // bounded by the round's own deadline
	if c.place != nil {
		c.place.until = until
	}
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
	type key struct {
		id          uuid.UUID
		provisioner string
	}
	first := make(map[key]bool, len(round))
	for _, c := range round {
		if k := (key{c.id, c.provisioner}); first[k] {
			continue // of two for one place the second finds nothing to do
		} else {
			first[k] = true
		}
		p.Ids, p.Provisioners, p.Fences = append(p.Ids, c.id), append(p.Provisioners, c.provisioner), append(p.Fences, c.fence)
		by[c.fence] = c
	}
	rows, err := e.q.PlaceClaim(ctx, e.pool, p)
	if err != nil { // they may have been claimed all the same, or will be yet
		leases := make([]lease, len(round))
		for i, c := range round {
			c.err = fmt.Errorf("claim: %w", err)
			leases[i] = lease{id: c.id, fence: c.fence}
		}
		e.giveBackUnanswered(leases)
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
