package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"berth/db/dbsqlc"
	"berth/internal/defaults"
)

// roll takes a step of the rollout: wakes the next places that were last driven under another configuration, as many as are due by
// now. All workers share the rate, and what is done is in the rows, so any of them may end at any time.
func (e *Engine) roll(ctx context.Context, b *backend) error {
	finished := false
	each := time.Duration(float64(time.Second) / e.rolloutRate)
	err := pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
		r, err := e.q.ConfigurationRollout(ctx, tx, &dbsqlc.ConfigurationRolloutParams{Name: b.name, Digest: b.digest, Most: max(each, defaults.Grace)})
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // it is over, or another worker is at it
		}
		if err != nil {
			return fmt.Errorf("look at the rollout of %q: %w", b.name, err)
		}
		n := min(int(r.Since/each), defaults.DispatchBatch)
		if n == 0 {
			return nil
		}
		ids, err := e.q.PlaceBehind(ctx, tx, &dbsqlc.PlaceBehindParams{
			Provisioner: b.name, After: r.RolledTo, Digest: b.digest, MaxLost: defaults.MaxLost, Most: int32(n), //nolint:gosec // it is small
		})
		if err != nil {
			return fmt.Errorf("look for resources of another configuration of %q: %w", b.name, err)
		}
		rolled := &dbsqlc.ConfigurationRolledParams{Name: b.name, Rest: r.Since - time.Duration(n)*each}
		if len(ids) == n {
			rolled.After = ids[n-1]
		} else if finished, err = e.rolledOut(ctx, tx, b, ids); err != nil || finished {
			return err
		}
		wakes, err := e.again(ctx, tx, b.name, ids)
		if err != nil {
			return err
		}
		for i := range wakes {
			wakes[i].Background = true // behind what a person waits for
		}
		if err := e.lifecycle.Jobs().Wake(ctx, tx, wakes); err != nil {
			return err
		}
		if err := e.q.ConfigurationRolled(ctx, tx, rolled); err != nil {
			return fmt.Errorf("note the rollout of %q: %w", b.name, err)
		}
		return nil
	})
	if err != nil || !finished {
		return err
	}
	done, total, err := e.rollout(ctx, b)
	if total > 0 {
		e.log.Info("all resources were brought to the configuration that acts", slog.String("provisioner", b.name), slog.String("digest", b.digest),
			slog.Int64("done", done), slog.Int64("total", total))
	}
	return err
}

// rolledOut ends the rollout if nothing is left of it. Else it begins anew, for what was held or under way.
func (e *Engine) rolledOut(ctx context.Context, tx pgx.Tx, b *backend, ids []uuid.UUID) (bool, error) {
	if len(ids) > 0 {
		return false, nil
	}
	c, err := e.q.PlaceBehindCount(ctx, tx, &dbsqlc.PlaceBehindCountParams{Provisioner: b.name, Digest: b.digest})
	if err != nil {
		return false, fmt.Errorf("count resources of another configuration of %q: %w", b.name, err)
	}
	if c.Behind > 0 {
		return false, nil
	}
	if err := e.q.ConfigurationDone(ctx, tx, b.name); err != nil {
		return false, fmt.Errorf("end the rollout of %q: %w", b.name, err)
	}
	return true, nil
}

// rollout is how far it is, for the log.
func (e *Engine) rollout(ctx context.Context, b *backend) (done, total int64, err error) {
	c, err := e.q.PlaceBehindCount(ctx, e.pool, &dbsqlc.PlaceBehindCountParams{Provisioner: b.name, Digest: b.digest})
	if err != nil {
		return 0, 0, fmt.Errorf("count resources of another configuration of %q: %w", b.name, err)
	}
	return c.Places - c.Behind, c.Places, nil
}
