package lifecycle_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/lifecycle"
)

// TestStory takes one deployment with a runtime and a database at another provisioner through every state, and reads what a
// person would see at each turn.
func TestStory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.create(t, 1)[0]
	do := func(f func(context.Context, pgx.Tx, ...uuid.UUID) error) {
		t.Helper()
		b.do(t, func(ctx context.Context, tx pgx.Tx) error { return f(ctx, tx, id) })
	}
	update := func(slots int) {
		t.Helper()
		do(func(ctx context.Context, tx pgx.Tx, ids ...uuid.UUID) error {
			return b.client.Update(ctx, tx, lifecycle.Change{Slots: slots}, ids...)
		})
	}
	see := func(state, host string) {
		t.Helper()
		d, err := b.client.Get(t.Context(), b.pool, id)
		require.NoError(t, err)
		require.Equal(t, state, d.State)
		require.Equal(t, host, d.RuntimeHost)
		require.Len(t, d.RuntimeInstanceID, 32, "the same in every state")
	}
	claim := func(typ string) (place uuid.UUID) {
		t.Helper()
		require.NoError(t, b.pool.QueryRow(t.Context(), `UPDATE berth.provisioner_resources SET claimed_generation = generation, fence = gen_random_uuid(),
			leased_by = gen_random_uuid(), leased_until = now() + interval '1 minute' WHERE deployment_id = $1 AND type = $2 AND claimed_generation < generation RETURNING id`, id, typ).Scan(&place))
		return place
	}
	end := func(place uuid.UUID, o outcome) {
		t.Helper()
		b.do(t, func(ctx context.Context, tx pgx.Tx) error { return b.store(ctx, tx, id, place, o) })
	}
	drive := func(typ string, o outcome) {
		t.Helper()
		end(claim(typ), o)
	}
	ready, parked, absent := outcome{Phase: "ready", Met: true}, outcome{Phase: "hibernated", Met: true}, outcome{Phase: "absent", Met: true}
	const host = "http://a:8080"

	see("pending", "")
	drive("runtime", ready)
	b.exec(t, `UPDATE berth.provisioner_resources SET config = '{"host": "http://a:8080"}' WHERE type = 'runtime'`)
	see("pending", "") // the database is not there yet
	drive("database", outcome{Phase: "pending", Reason: "Starting"})
	see("pending", "")
	b.exec(t, "UPDATE berth.provisioner_resources SET generation = generation + 1 WHERE type = 'database'") // the dispatcher
	drive("database", ready)
	see("running", host)

	update(4)
	see("updating", host)
	drive("runtime", outcome{Phase: "ready", Reason: "NoCapacity"})
	see("updating", host) // it waits for room and serves at its old size
	update(3)
	drive("runtime", outcome{Phase: "ready", Failed: true, GivenUp: true, Reason: "Invalid"})
	see("errored", "")
	update(2)
	see("updating", host)
	drive("runtime", ready)
	see("running", host)

	do(b.client.Stop)
	see("stopping", "")
	drive("runtime", parked)
	see("stopping", "")
	late := claim("database")
	do(b.client.Start) // while the database is being parked
	see("pending", "")
	do(b.client.Stop)
	see("stopping", "")
	end(late, parked)
	see("stopping", "") // parked by a run that began before the last wish: it is looked at once more
	drive("database", parked)
	see("stopping", "") // the runtime was wished ready for a moment
	drive("runtime", parked)
	see("stopped", "")
	update(5)
	see("stopped", "") // it is taken up when it starts
	require.Zero(t, b.count(t, "SELECT count(*) FROM berth.provisioner_resources WHERE claimed_generation < generation"))

	do(b.client.Start)
	see("pending", "")
	drive("database", ready)
	drive("runtime", outcome{Phase: "absent", Failed: true, Reason: "Failed"})
	see("pending", "")
	b.exec(t, "UPDATE berth.provisioner_resources SET deadline_at = now() - interval '1 second' WHERE type = 'runtime'")
	b.do(t, func(ctx context.Context, tx pgx.Tx) error { return b.client.Settle(ctx, tx, []uuid.UUID{id}, nil, nil) })
	see("errored", "")
	do(b.client.Start) // a person tries again
	see("pending", "")
	drive("runtime", ready)
	see("running", host)

	do(b.client.Restart)
	see("updating", host) // up until it is parked
	drive("runtime", parked)
	see("pending", "")
	drive("runtime", ready) // wished ready again by the outcome itself
	drive("database", parked)
	drive("database", ready)
	see("running", host)

	do(func(ctx context.Context, tx pgx.Tx, ids ...uuid.UUID) error {
		return b.client.RemoveResource(ctx, tx, "database", "", ids...)
	})
	see("running", host)
	gone := claim("database")
	do(func(ctx context.Context, tx pgx.Tx, ids ...uuid.UUID) error {
		return b.client.AddResource(ctx, tx, database(""), ids...)
	})
	see("pending", "") // another one, with an id of its own
	end(gone, absent)
	require.Zero(t, b.count(t, "SELECT count(*) FROM berth.provisioner_resources WHERE id = $1", gone))
	drive("database", ready)
	see("running", host)

	do(b.client.Delete)
	see("deleting", "")
	drive("database", absent)
	see("deleting", "")
	drive("runtime", absent)
	_, err := b.client.Get(t.Context(), b.pool, id)
	require.ErrorIs(t, err, lifecycle.ErrNotFound)

	happened, err := b.client.Events(t.Context(), b.pool, id, 0, 0)
	require.NoError(t, err)
	require.Equal(t, lifecycle.DeploymentCreated, happened[0].Kind)
	require.Equal(t, lifecycle.DeploymentDeleted, happened[len(happened)-1].Kind)
}
