package lifecycle_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"berth/db"
)

// engine drives places as the real one does, in short: claims in statements of their own, outcomes in groups, deployments locked
// before places and none waited for. Everything it drives succeeds at once.
type engine struct {
	*bundle
	t    testing.TB
	stop context.CancelFunc
	all  sync.WaitGroup
	errs chan error
}

func (b *bundle) engine(t testing.TB, workers int) *engine {
	t.Helper()
	own := *b
	own.pool = b.d.Open(t, db.PoolOptions{MaxConns: int32(workers), Name: "engine", Worker: true})
	ctx, stop := context.WithCancel(t.Context())
	e := &engine{bundle: &own, t: t, stop: stop, errs: make(chan error, workers)}
	for range workers {
		e.all.Go(func() {
			for ctx.Err() == nil {
				if _, err := e.round(ctx); err != nil && ctx.Err() == nil {
					e.errs <- err
					return
				}
			}
		})
	}
	t.Cleanup(e.end)
	return e
}

// end stops the engine. What it has claimed is stored first.
func (e *engine) end() {
	e.stop()
	e.all.Wait()
	select {
	case err := <-e.errs:
		require.NoError(e.t, err, "the engine")
	default:
	}
}

type run struct {
	id, deployment uuid.UUID
	desired        string
}

// round claims what there is to drive and stores the outcomes. It returns how many.
func (e *engine) round(ctx context.Context) (int, error) {
	// A claim whose reply is lost to the end of ctx would stay claimed, with nobody to give it back.
	rows, err := e.pool.Query(context.WithoutCancel(ctx), `WITH c AS (SELECT id, provisioner FROM berth.provisioner_resources WHERE claimed_generation < generation AND fence IS NULL
			ORDER BY random() LIMIT 50 FOR NO KEY UPDATE SKIP LOCKED)
		UPDATE berth.provisioner_resources p SET claimed_generation = generation, fence = gen_random_uuid(), leased_by = gen_random_uuid(),
			leased_until = clock_timestamp() + interval '1 minute' FROM c WHERE p.id = c.id AND p.provisioner = c.provisioner
		RETURNING p.id, p.deployment_id, p.desired_phase`)
	if err != nil {
		return 0, err
	}
	runs, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r run, err error) {
		return r, row.Scan(&r.id, &r.deployment, &r.desired)
	})
	if err != nil {
		if gaveWay(err) {
			return 0, nil
		}
		return 0, err
	}
	claimed := len(runs)
	for len(runs) > 0 { // whatever happens: a lease that nobody ends would stay
		left, err := e.commit(context.WithoutCancel(ctx), runs)
		if err != nil && !gaveWay(err) {
			return 0, err
		}
		if err == nil {
			runs = left
		}
	}
	return claimed, nil
}

// commit stores the outcomes of those whose deployments are free and returns the others.
func (e *engine) commit(ctx context.Context, runs []run) (left []run, err error) {
	tx, err := e.pool.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback(ctx)
	var ids []uuid.UUID
	for _, r := range runs {
		ids = append(ids, r.deployment)
	}
	rows, err := tx.Query(ctx, "SELECT id FROM berth.deployments WHERE id = ANY($1) ORDER BY id FOR UPDATE SKIP LOCKED", ids)
	if err != nil {
		return nil, err
	}
	free, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, err
	}
	locked := map[uuid.UUID]bool{}
	for _, id := range free {
		locked[id] = true
	}
	var places []uuid.UUID
	var phases []string
	for _, r := range runs {
		if !locked[r.deployment] {
			left = append(left, r)
			continue
		}
		places, phases = append(places, r.id), append(phases, r.desired)
	}
	if len(places) == 0 {
		return left, nil
	}
	_, err = tx.Exec(ctx, `WITH o AS (SELECT unnest($1::uuid[]) AS id, unnest($2::text[]) AS phase),
		l AS (SELECT p.id FROM berth.provisioner_resources p JOIN o ON o.id = p.id ORDER BY p.id FOR NO KEY UPDATE OF p)
		UPDATE berth.provisioner_resources p SET fence = NULL, leased_by = NULL, leased_until = NULL, phase = o.phase,
			observed_generation = CASE WHEN claimed_generation >= intent_generation THEN claimed_generation ELSE observed_generation END,
			deadline_at = CASE WHEN claimed_generation < intent_generation THEN deadline_at END,
			retry_at = CASE WHEN claimed_generation < generation THEN now() + interval '5 seconds' END
		FROM o JOIN l ON l.id = o.id WHERE p.id = o.id`, places, phases)
	if err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, `DELETE FROM berth.provisioner_resources WHERE id = ANY($1) AND desired_phase = 'absent' AND phase = 'absent'
		AND observed_generation >= intent_generation`, places); err != nil {
		return nil, err
	}
	if err := e.client.Settle(ctx, tx, free, nil, nil); err != nil {
		return nil, err
	}
	return left, tx.Commit(ctx)
}

func gaveWay(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "55P03" || pg.Code == "40P01")
}

// drain drives until nothing is left to drive.
func (b *bundle) drain(t testing.TB) {
	t.Helper()
	e := &engine{bundle: b, t: t}
	for {
		n, err := e.round(t.Context())
		require.NoError(t, err)
		if n == 0 {
			return
		}
	}
}
