package reconcile

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"berth/db/dbsqlc"
	"berth/internal/defaults"
	"berth/jobs"
)

// dispatcher looks each second, until ctx ends.
func (e *Engine) dispatcher(ctx context.Context) {
	tick := time.NewTicker(defaults.Dispatch)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := e.Dispatch(ctx); err != nil && ctx.Err() == nil {
				e.log.Warn("dispatch", slog.Any("error", err))
			}
		}
	}
}

// Dispatch looks once: places that are due and held by nobody alive get a job; deployments with a place past its deadline say
// so; rows of workers that no lease names any more go. Repeat-safe, by any number of processes at once.
func (e *Engine) Dispatch(ctx context.Context) error {
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

func (e *Engine) dispatchDue(ctx context.Context) (n int, err error) {
	err = pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
		rows, err := e.q.PlaceDispatch(ctx, tx, &dbsqlc.PlaceDispatchParams{
			MissingFor: defaults.MissingFor, TakeOver: e.life.mayTakeOver(), Alive: defaults.Alive, Most: defaults.DispatchBatch,
			Grace: defaults.Grace, MaxGrace: defaults.MaxGrace,
		})
		if err != nil {
			return fmt.Errorf("find what is due: %w", err)
		}
		n = len(rows)
		wakes := make([]jobs.Wake, n)
		for i, r := range rows {
			wakes[i] = wake(r.ID, r.Provisioner, r.DeploymentID, r.DesiredPhase, r.Settled)
			wakes[i].Shared = r.Missing
		}
		return e.lifecycle.Jobs().Wake(ctx, tx, wakes)
	})
	return n, err
}

func (e *Engine) settleOverdue(ctx context.Context) error {
	return pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
		locked, err := e.q.PlaceOverdue(ctx, tx, defaults.DispatchBatch)
		if err != nil {
			return fmt.Errorf("find what is overdue: %w", err)
		}
		return e.lifecycle.Settle(ctx, tx, locked, nil, nil)
	})
}
