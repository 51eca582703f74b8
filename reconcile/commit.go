package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"berth/db/dbsqlc"
	"berth/internal/defaults"
	"berth/jobs"
	"berth/lifecycle"
	"berth/provisioner"
)

// commitGroup stores a round of outcomes in one transaction. If that fails each is tried alone, so that one that can not be
// stored holds up nobody else.
func (e *Engine) commitGroup(ctx context.Context, round []*outcome) {
	results, err := e.commitAll(ctx, round)
	if err != nil && len(round) > 1 && ctx.Err() == nil {
		for _, o := range round {
			e.commitGroup(ctx, []*outcome{o})
		}
		return
	}
	for _, o := range round {
		switch {
		case err == nil:
			o.result <- results[o.fence]
		case o.gone && coded(err, "23503"):
			// A row refers to it: something is booked yet, so it is not gone, whatever was said. The next try stores that.
			o.refuse("it was said to be gone while something is still booked for it")
			o.reason = "StillHeld"
			o.result <- err
		case !o.gone && coded(err, "22", "23514", "54"):
			// The database can not hold what was returned. The next try stores that much.
			var pg *pgconn.PgError
			errors.As(err, &pg)
			o.refuse("what the provisioner returned can not be stored: " + pg.Message)
			o.result <- err
		default:
			o.result <- err
		}
	}
}

// coded reports whether the server refused with one of these SQLSTATEs, or one of these classes of them.
func coded(err error, prefixes ...string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(pg.Code, p) })
}

func (e *Engine) commitAll(ctx context.Context, round []*outcome) (results map[uuid.UUID]error, err error) {
	ctx, cancel := context.WithTimeout(ctx, defaults.CommitBudget)
	defer cancel()
	err = pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) (err error) {
		c := commit{e: e, tx: tx, round: round, results: map[uuid.UUID]error{}}
		results = c.results
		return c.run(ctx)
	})
	return results, err
}

// commit is one transaction that stores outcomes. It waits for nobody: what someone holds is left for later.
type commit struct {
	e       *Engine
	tx      pgx.Tx
	round   []*outcome
	locked  []uuid.UUID
	results map[uuid.UUID]error
	events  []lifecycle.Event
	wakes   []jobs.Wake
}

func (c *commit) run(ctx context.Context) error {
	if err := c.lock(ctx); err != nil {
		return err
	}
	left, err := c.drop(ctx)
	if err != nil {
		return err
	}
	if left, err = c.keep(ctx, left); err != nil {
		return err
	}
	if err := c.explain(ctx, left); err != nil {
		return err
	}
	return c.e.lifecycle.Settle(ctx, c.tx, c.locked, c.events, c.wakes)
}

// lock takes the deployments of the round that nobody holds: the stronger lock for those that may go with their last place.
func (c *commit) lock(ctx context.Context) error {
	var gone, rest []uuid.UUID
	for _, o := range c.round {
		if o.deployment != uuid.Nil && o.gone {
			gone = append(gone, o.deployment)
		}
	}
	for _, o := range c.round {
		if o.deployment != uuid.Nil && !slices.Contains(gone, o.deployment) {
			rest = append(rest, o.deployment)
		}
	}
	if len(rest) > 0 {
		ids, err := c.e.q.DeploymentTryLock(ctx, c.tx, rest)
		if err != nil {
			return fmt.Errorf("lock deployments: %w", err)
		}
		c.locked = append(c.locked, ids...)
	}
	if len(gone) > 0 {
		ids, err := c.e.q.DeploymentTryLockDelete(ctx, c.tx, gone)
		if err != nil {
			return fmt.Errorf("lock deployments: %w", err)
		}
		c.locked = append(c.locked, ids...)
	}
	return nil
}

// drop lets the places go that are gone and still wished so, and wakes what waited for that. It returns what is left to store.
func (c *commit) drop(ctx context.Context) (left []*outcome, err error) {
	p := &dbsqlc.PlaceDropParams{Locked: c.locked}
	for _, o := range c.round {
		if o.gone {
			p.Ids, p.Provisioners, p.Fences = append(p.Ids, o.id), append(p.Provisioners, o.provisioner), append(p.Fences, o.fence)
		}
	}
	if len(p.Ids) == 0 {
		return c.round, nil
	}
	rows, err := c.e.q.PlaceDrop(ctx, c.tx, p)
	if err != nil {
		return nil, fmt.Errorf("let places go: %w", err)
	}
	dropped := map[uuid.UUID]bool{}
	ids := make([]uuid.UUID, len(rows))
	for i, r := range rows {
		dropped[r.Fence], c.results[r.Fence], ids[i] = true, nil, r.ID
		if r.Type == string(provisioner.Runtime) {
			c.tell(lifecycle.RuntimeRemoved, r.DeploymentID, r.ID, r.Provisioner, r.Config)
		}
	}
	if len(ids) > 0 {
		free, err := c.e.q.PlaceWaiting(ctx, c.tx, ids)
		if err != nil {
			return nil, fmt.Errorf("find what waited for places to go: %w", err)
		}
		for _, r := range free {
			c.wakes = append(c.wakes, wake(r.ID, r.Provisioner, r.DeploymentID, r.DesiredPhase, r.Background))
		}
	}
	for _, o := range c.round {
		if !dropped[o.fence] {
			left = append(left, o)
		}
	}
	return left, nil
}

// keep stores what is not to go. It returns what was not stored.
func (c *commit) keep(ctx context.Context, os []*outcome) (left []*outcome, err error) {
	if len(os) == 0 {
		return nil, nil
	}
	p := &dbsqlc.PlaceStoreParams{Grace: defaults.Grace, Locked: c.locked}
	by := make(map[uuid.UUID]*outcome, len(os))
	for _, o := range os {
		by[o.fence] = o
		p.Ids, p.Provisioners, p.Fences = append(p.Ids, o.id), append(p.Provisioners, o.provisioner), append(p.Fences, o.fence)
		p.Phases, p.Reasons, p.Messages = append(p.Phases, string(o.seen)), append(p.Reasons, o.reason), append(p.Messages, o.message)
		p.States, p.Configs = append(p.States, o.state), append(p.Configs, o.config)
		p.Digests = append(p.Digests, c.e.backends[o.provisioner].digest)
		p.Met, p.Failed, p.GivenUp = append(p.Met, o.met), append(p.Failed, o.failed), append(p.GivenUp, o.givenUp)
		p.Waits, p.Down, p.Gone, p.Aside, p.Retries = append(p.Waits, o.waits), append(p.Down, o.down), append(p.Gone, o.gone), append(p.Aside, o.aside), append(p.Retries, o.retry)
	}
	rows, err := c.e.q.PlaceStore(ctx, c.tx, p)
	if err != nil {
		return nil, fmt.Errorf("store outcomes: %w", err)
	}
	again := map[string][]uuid.UUID{}
	for _, r := range rows {
		o := by[r.Fence]
		delete(by, r.Fence)
		c.results[r.Fence] = nil
		c.publish(o, r)
		switch {
		case r.Moved:
			c.wakes = append(c.wakes, wake(r.ID, r.Provisioner, r.DeploymentID, r.DesiredPhase, false)) // somebody changed their mind while it ran
		case o.again && r.StateChanged:
			again[r.Provisioner] = append(again[r.Provisioner], r.ID)
		}
	}
	for at, ids := range again {
		wakes, err := c.e.again(ctx, c.tx, at, ids)
		if err != nil {
			return nil, err
		}
		c.wakes = append(c.wakes, wakes...)
	}
	for _, o := range os {
		if by[o.fence] != nil {
			left = append(left, o)
		}
	}
	return left, nil
}

// explain tells outcomes that lost their lease from those that someone holds up.
func (c *commit) explain(ctx context.Context, left []*outcome) error {
	if len(left) == 0 {
		return nil
	}
	p := &dbsqlc.PlaceHoldsParams{}
	for _, o := range left {
		p.Ids, p.Fences = append(p.Ids, o.id), append(p.Fences, o.fence)
		c.results[o.fence] = errFenced
	}
	rows, err := c.e.q.PlaceHolds(ctx, c.tx, p)
	if err != nil {
		return fmt.Errorf("look which leases hold: %w", err)
	}
	for _, fence := range rows {
		c.results[fence] = errBusy
	}
	return nil
}
