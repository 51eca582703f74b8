package bench

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

const unfinished = `SELECT count(*) FROM (SELECT FROM berth.river_job WHERE finalized_at IS NULL LIMIT 1) x`

// Backlog measures how fast a backlog of new deployments goes through the whole static path (claim, reserve, ping, commit, job
// completed) against how fast the queue alone works off jobs that do nothing.
func Backlog(ctx context.Context, url string, s Sizes, out io.Writer) error {
	r, err := newRig(ctx, url, s.Pairs*s.Deployments)
	if err != nil {
		return err
	}
	defer func() { _ = r.close() }()
	var ratios []float64
	for i := range s.Pairs {
		noop, err := r.drain(ctx, s.Noops, func(n int) error { return r.noops(ctx, n) })
		if err != nil {
			return err
		}
		path, err := r.drain(ctx, s.Deployments, func(n int) error {
			ids := make([]uuid.UUID, n)
			for i := range ids {
				ids[i] = uuid.New()
			}
			return r.create(ctx, ids...)
		})
		if err != nil {
			return err
		}
		if err := r.until(ctx, time.Minute, `SELECT count(*) FROM berth.deployments WHERE state <> 'running'`); err != nil {
			return err
		}
		ratios = append(ratios, path/noop)
		fmt.Fprintf(out, "backlog  pair %d: no-op %6.0f/s  deployments %6.0f/s  ratio %.3f\n", i+1, noop, path, path/noop)
	}
	slices.Sort(ratios)
	fmt.Fprintf(out, "backlog  ratio of %d deployments to no-ops, median of %d: %.3f (%.3f to %.3f)\n",
		s.Deployments, s.Pairs, ratios[len(ratios)/2], ratios[0], ratios[len(ratios)-1])
	return nil
}

// drain returns at how many a second a backlog of n went.
func (r *rig) drain(ctx context.Context, n int, insert func(n int) error) (float64, error) {
	if _, err := r.admin.Exec(ctx, `TRUNCATE berth.river_job`); err != nil {
		return 0, fmt.Errorf("empty the queue: %w", err)
	}
	if err := insert(n); err != nil {
		return 0, err
	}
	if err := r.vacuum(ctx); err != nil {
		return 0, err
	}
	began := time.Now()
	w, err := r.work(ctx, nil)
	if err != nil {
		return 0, err
	}
	err = r.until(ctx, 5*time.Minute, unfinished)
	took := time.Since(began)
	if stopped := w.stop(); err == nil {
		err = stopped
	}
	return float64(n) / took.Seconds(), err
}

// noops inserts the yardstick's backlog.
func (r *rig) noops(ctx context.Context, n int) error {
	params := make([]river.InsertManyParams, n)
	for i := range params {
		params[i] = river.InsertManyParams{Args: noopArgs{}, InsertOpts: &river.InsertOpts{Queue: noopQueue}}
	}
	return pgx.BeginFunc(ctx, r.admin, func(tx pgx.Tx) error {
		_, err := r.insert.InsertManyFastTx(ctx, tx, params)
		return err
	})
}
