package reconcile

import (
	"context"
	"fmt"
	"time"

	"berth/db/dbsqlc"
	"berth/internal/defaults"
)

// Prune deletes what is too old to be of use: events, and the proof of what was deleted long ago. Each batch is a statement and a
// transaction of its own that waits for nobody. Repeat-safe, by any number of processes at once: they skip each other's rows.
func (e *Engine) Prune(ctx context.Context) error {
	err := inBatches(func(after time.Time) (int64, time.Time, error) {
		r, err := e.q.EventPrune(ctx, e.pool, &dbsqlc.EventPruneParams{After: after, Kept: defaults.EventsKept, Most: defaults.PruneBatch})
		if err != nil {
			return 0, after, fmt.Errorf("prune events: %w", err)
		}
		return r.N, r.Last, nil
	})
	if err != nil {
		return err
	}
	return inBatches(func(after time.Time) (int64, time.Time, error) {
		r, err := e.q.DeletedResourcePrune(ctx, e.pool, &dbsqlc.DeletedResourcePruneParams{After: after, Kept: defaults.DeletedKept, Most: defaults.PruneBatch})
		if err != nil {
			return 0, after, fmt.Errorf("prune what is known of deleted resources: %w", err)
		}
		return r.N, r.Last, nil
	})
}

// inBatches goes on, each time from where the last one ended, until a batch is not full.
func inBatches(prune func(after time.Time) (n int64, last time.Time, err error)) error {
	var last time.Time
	for n := int64(defaults.PruneBatch); n == defaults.PruneBatch; {
		var err error
		if n, last, err = prune(last); err != nil {
			return err
		}
	}
	return nil
}
