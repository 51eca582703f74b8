package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"berth/db/dbsqlc"
	"berth/internal/defaults"
	"berth/jobs"
)

// Dispatch looks once: what the dead held is due; places that are due and held by nobody alive get a job; deployments with a
// place past its deadline say so; rows of workers that no lease names any more go. Repeat-safe, by any number of processes at
// once.
func (e *Engine) Dispatch(ctx context.Context) error {
	if err := e.hurryOrphans(ctx); err != nil {
		return err
	}
	for {
		n, err := e.dispatchDue(ctx)
		if err != nil {
			return err
		}
		if n < defaults.DispatchBatch {
			break
		}
	}
	if err := e.settleOverdue(ctx); err != nil {
		return err
	}
	if err := e.q.WorkerPrune(ctx, e.pool, 2*defaults.Lease); err != nil {
		return fmt.Errorf("prune workers: %w", err)
	}
	return nil
}

// hurryOrphans ends the leases of the lately dead, once for each of them, and makes what they held due. What someone holds is left for
// the next time. No index says who holds what, because then every claim would have to keep it; so the places are read.
func (e *Engine) hurryOrphans(ctx context.Context) error {
	if !e.life.mayTakeOver() {
		return nil
	}
	dead, err := e.q.WorkerDead(ctx, e.pool, defaults.Lease)
	if err != nil {
		return fmt.Errorf("find workers that died: %w", err)
	}
	e.hurryMu.Lock()
	defer e.hurryMu.Unlock()
	fresh := slices.ContainsFunc(dead, func(id uuid.UUID) bool { return !slices.Contains(e.hurried, id) })
	if fresh || len(e.leftOut) > 0 {
		leftOut, err := e.q.PlaceOrphaned(ctx, e.pool, &dbsqlc.PlaceOrphanedParams{Dead: dead, Hurried: e.hurried, LeftOut: e.leftOut, Alive: defaults.Alive})
		if err != nil {
			return fmt.Errorf("find what the dead held: %w", err)
		}
		e.leftOut = leftOut
	}
	e.hurried = dead
	return nil
}

func (e *Engine) dispatchDue(ctx context.Context) (n int, err error) {
	err = pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
		rows, err := e.q.PlaceDispatch(ctx, tx, &dbsqlc.PlaceDispatchParams{
			MissingFor: defaults.MissingFor, TakeOver: e.life.mayTakeOver(), Alive: defaults.Alive, Most: defaults.DispatchBatch,
			Grace: defaults.Grace, MaxGrace: defaults.MaxGrace, Each: defaults.Dispatch, Idle: e.idle(),
		})
		if err != nil {
			return fmt.Errorf("find what is due: %w", err)
		}
		n = len(rows)
		slices.SortFunc(rows, func(a, b *dbsqlc.PlaceDispatchRow) int { return a.DueAt.Compare(b.DueAt) }) // as they came
		wakes := make([]jobs.Wake, n)
		for i, r := range rows {
			wakes[i] = wake(r.ID, r.Provisioner, r.DeploymentID, r.DesiredPhase, r.Background)
			wakes[i].Shared = r.Missing
		}
		return e.lifecycle.Jobs().Wake(ctx, tx, wakes)
	})
	return n, err
}

// ever is longer ago than anything.
const ever = 100 * 365 * 24 * time.Hour

// settleOverdue looks at the deadlines that passed lately, and now and then at all that passed: what someone held, or what passed
// while no worker lived. What is errored keeps its deadline, so to look at all each time would cost most when most is broken.
func (e *Engine) settleOverdue(ctx context.Context) error {
	within := 2 * defaults.OverdueAll
	all := e.overdueAll.Load() <= time.Now().Add(-defaults.OverdueAll).UnixNano()
	if all {
		within = ever
	}
	err := pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
		locked, err := e.q.PlaceOverdue(ctx, tx, &dbsqlc.PlaceOverdueParams{Within: within, Most: defaults.DispatchBatch})
		if err != nil {
			return fmt.Errorf("find what is overdue: %w", err)
		}
		all = all && len(locked) < defaults.DispatchBatch // else there may be more
		return e.lifecycle.Settle(ctx, tx, locked, nil, nil)
	})
	if err == nil && all {
		e.overdueAll.Store(time.Now().UnixNano())
	}
	return err
}
