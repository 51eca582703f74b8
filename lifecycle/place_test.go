package lifecycle_test

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/lifecycle"
)

// TestReconcile wakes a resource in each situation that a place can be in, twice: it is driven once more, as soon as a person would
// have it, and nothing else of it changes.
func TestReconcile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for wish, desired := range wishes {
		for name, stand := range situations {
			h, _ := b.put(t, desired.deployment, desired.place, stand)
			var id uuid.UUID
			require.NoError(t, b.pool.QueryRow(t.Context(), "SELECT id FROM berth.provisioner_resources WHERE deployment_id = $1 AND type = 'runtime'", h.ids[0]).Scan(&id))
			const rest = `SELECT (to_jsonb(p) - '{generation,retry_at,updated_at}'::text[])::text FROM berth.provisioner_resources p WHERE id = $1`
			var before, after string
			require.NoError(t, b.pool.QueryRow(t.Context(), rest, id).Scan(&before))
			jobs := b.count(t, "SELECT coalesce(max(id), 0)::int FROM berth.river_job")
			for n := range 2 {
				b.do(t, func(ctx context.Context, tx pgx.Tx) error { return b.client.Reconcile(ctx, tx, id) })
				require.Equal(t, 1, b.count(t, `SELECT count(*) FROM berth.provisioner_resources WHERE id = $1 AND generation = claimed_generation + 1
					AND retry_at < now() + interval '1 minute'`, id), "%s, %s: one run waits, however often it is asked for", wish, name)
				require.Equal(t, n+1, b.count(t, "SELECT count(*) FROM berth.river_job WHERE id > $1 AND priority = 1 AND args->>'resource_id' = $2", jobs, id.String()), "%s, %s", wish, name)
			}
			require.NoError(t, b.pool.QueryRow(t.Context(), rest, id).Scan(&after))
			require.Equal(t, before, after, "%s, %s", wish, name)
			happened, err := b.client.Events(t.Context(), b.pool, h.ids[0], 0, 0)
			require.NoError(t, err)
			require.Equal(t, lifecycle.ReconcileAsked, happened[len(happened)-1].Kind)
			require.Equal(t, id, *happened[len(happened)-1].ResourceID)
		}
	}
}

// TestReconcileWithoutOwnerOrWorker wakes a debt, and a resource whose provisioner is missing: that one in the queue that all work.
func TestReconcileWithoutOwnerOrWorker(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.create(t, 2)
	b.exec(t, "UPDATE berth.provisioner_resources SET deployment_id = NULL, desired_phase = 'absent' WHERE deployment_id = $1", ids[0])
	b.exec(t, "UPDATE berth.provisioners SET seen_at = now() - interval '1 hour' WHERE name = $1", baseA)
	b.exec(t, "DELETE FROM berth.river_job")
	places, err := b.client.Places(t.Context(), b.pool, lifecycle.PlaceFilter{})
	require.NoError(t, err)
	require.Len(t, places, 4)
	var all []uuid.UUID
	for _, p := range places {
		all = append(all, p.ID)
	}
	b.do(t, func(ctx context.Context, tx pgx.Tx) error { return b.client.Reconcile(ctx, tx, all...) })
	require.Equal(t, 2, b.count(t, "SELECT count(*) FROM berth.river_job WHERE queue = 'provisioner-static-a'"))
	require.Equal(t, 2, b.count(t, "SELECT count(*) FROM berth.river_job WHERE queue = 'shared'"))
	require.Equal(t, 2, b.count(t, "SELECT count(*) FROM berth.events WHERE kind = 'ReconcileAsked' AND deployment_id IS NULL"))
	b.do(t, func(ctx context.Context, tx pgx.Tx) error { return b.client.Reconcile(ctx, tx) })
}

// TestReconcileByMany has many wake and change the same resources in opposite orders. Nobody has to give way.
func TestReconcileByMany(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.wide(t, 6)
	ids := b.create(t, 20)
	places, err := b.client.Places(t.Context(), b.pool, lifecycle.PlaceFilter{})
	require.NoError(t, err)
	var all []uuid.UUID
	for _, p := range places {
		all = append(all, p.ID)
	}
	calls := []call{
		func(ctx context.Context, tx pgx.Tx) error { return b.client.Reconcile(ctx, tx, all...) },
		func(ctx context.Context, tx pgx.Tx) error { return b.client.Reconcile(ctx, tx, reversed(all)...) },
		func(ctx context.Context, tx pgx.Tx) error { return b.client.Stop(ctx, tx, shuffled(ids)...) },
		func(ctx context.Context, tx pgx.Tx) error { return b.client.Start(ctx, tx, shuffled(ids)...) },
		func(ctx context.Context, tx pgx.Tx) error {
			some := shuffled(all)[:10]
			if err := b.client.Reconcile(ctx, tx, some...); err != nil {
				return err
			}
			return b.client.Reconcile(ctx, tx, reversed(some)...)
		},
	}
	var group sync.WaitGroup
	errs := make(chan error, len(calls))
	for _, f := range calls {
		group.Go(func() {
			for range 10 {
				if err := b.try(t.Context(), f); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	b.whole(t, ids, len(ids))
}

// TestPlaces pages through places in the order of their resources' ids. One that moves is not parted.
func TestPlaces(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.create(t, 3)
	b.register(t, "", configured("static-b", "runtime"))
	list := func(f lifecycle.PlaceFilter) (out []uuid.UUID) {
		t.Helper()
		places, err := b.client.Places(t.Context(), b.pool, f)
		require.NoError(t, err)
		for _, p := range places {
			out = append(out, p.ID)
		}
		return out
	}
	all := list(lifecycle.PlaceFilter{})
	require.Len(t, all, 6)
	require.True(t, slices.IsSortedFunc(all, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }))
	// The second one moves.
	b.exec(t, `INSERT INTO berth.provisioner_resources (id, provisioner, deployment_id, type, name, desired_phase, args)
		SELECT id, 'static-b', deployment_id, type, name, 'absent', args FROM berth.provisioner_resources WHERE id = $1`, all[1])
	require.Equal(t, []uuid.UUID{all[0], all[1], all[1]}, list(lifecycle.PlaceFilter{Limit: 2}))
	require.Equal(t, all[2:], list(lifecycle.PlaceFilter{After: all[1]}))
	require.Len(t, list(lifecycle.PlaceFilter{DeploymentID: ids[0]}), 2+b.count(t, "SELECT count(*) FROM berth.provisioner_resources WHERE deployment_id = $1 AND provisioner = 'static-b'", ids[0]))
	require.Len(t, list(lifecycle.PlaceFilter{Provisioner: baseA}), 3)
	require.Len(t, list(lifecycle.PlaceFilter{Provisioner: "static-b"}), 1)
	require.Len(t, list(lifecycle.PlaceFilter{Type: "database", Provisioner: baseA}), 3)
	require.Empty(t, list(lifecycle.PlaceFilter{Phase: "ready"}))
	b.exec(t, "UPDATE berth.provisioner_resources SET phase = 'pending', reason = 'NoCapacity' WHERE id = $1", all[1])
	require.Len(t, list(lifecycle.PlaceFilter{Phase: "pending", Reason: "NoCapacity"}), 2)

	places, err := b.client.PlacesOf(t.Context(), b.pool, all[1])
	require.NoError(t, err)
	require.Len(t, places, 2)
	require.Equal(t, "static-b", places[1].Provisioner, "the current one comes first")
	_, err = b.client.PlacesOf(t.Context(), b.pool, uuid.New())
	require.ErrorIs(t, err, lifecycle.ErrNotFound)
}
