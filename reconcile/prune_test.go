package reconcile

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/db"
	"berth/db/dbtest"
	"berth/internal/defaults"
	"berth/lifecycle"
	"berth/provisioner"
)

// young events stand beside the old ones.
const young = 500

// logged is a fleet with a log of so many old events, one in a hundred of which says that a deployment was deleted, and a record of
// each batch that is deleted from it.
func logged(t *testing.T, old int) *fleet {
	t.Helper()
	f := newFleet(t, dbtest.New(t), map[string]provisioner.Provisioner{"a": &scripted{}})
	f.exec(`INSERT INTO berth.events (at, deployment_id, kind, actor)
		SELECT now() - $1::interval - i * interval '1 second', gen_random_uuid(), CASE WHEN i % 100 = 0 THEN 'DeploymentDeleted' ELSE 'StateChanged' END, 'test'
		FROM generate_series(1, $2::int) i`, defaults.EventsKept, old)
	f.exec(`INSERT INTO berth.events (at, deployment_id, kind, actor)
		SELECT now() - $1::interval + interval '1 hour' + i * interval '1 second', gen_random_uuid(), 'StateChanged', 'test' FROM generate_series(1, $2::int) i`, defaults.EventsKept, young)
	f.exec(`CREATE TABLE batches (pid int, tx bigint, n int)`)
	f.exec(`CREATE FUNCTION note_batch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO batches SELECT pg_backend_pid(), txid_current(), count(*) FROM gone; RETURN NULL; END $$`)
	f.exec(`CREATE TRIGGER note AFTER DELETE ON berth.events REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION note_batch()`)
	return f
}

// pruning is a worker that prunes only when it is told to.
func (f *fleet) pruning(o options) *Engine {
	o.set = func(e *Engine) { e.pruneEvery = time.Hour }
	return f.unstarted(nil, o)
}

func (f *fleet) oldLeft() int {
	return f.count(`SELECT count(*) FROM berth.events WHERE kind = 'StateChanged' AND at < now() - $1::interval`, defaults.EventsKept)
}

// bounded demands that no transaction deleted more than a batch, and that nothing went that is to stay.
func (f *fleet) bounded(old int) {
	f.t.Helper()
	require.Positive(f.t, f.count(`SELECT count(*) FROM batches`))
	require.LessOrEqual(f.t, f.count(`SELECT max(n) FROM (SELECT sum(n) AS n FROM batches GROUP BY tx) b`), defaults.PruneBatch)
	require.Equal(f.t, young, f.count(`SELECT count(*) FROM berth.events WHERE kind = 'StateChanged' AND at > now() - $1::interval`, defaults.EventsKept), "nothing younger goes")
	require.Equal(f.t, old/100, f.count(`SELECT count(*) FROM berth.events WHERE kind = 'DeploymentDeleted'`), "what refuses ids stays")
}

// Two workers prune at once while an admin holds some of the rows: neither waits for him, and he waits for neither.
func TestPruneInBatches(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	const old = 100000
	f := logged(t, old)
	tx, err := f.Pool.Begin(ctx)
	require.NoError(t, err)
	const some = 30
	hold, err := tx.Exec(ctx, `SELECT FROM berth.events WHERE kind = 'StateChanged' ORDER BY at LIMIT $1 FOR UPDATE`, some)
	require.NoError(t, err)
	require.EqualValues(t, some, hold.RowsAffected())
	done := make(chan error, 2)
	for range 2 {
		e := f.pruning(options{})
		go func() { done <- e.Prune(ctx) }()
	}
	_, err = tx.Exec(ctx, `SET LOCAL lock_timeout = '2s'`)
	require.NoError(t, err)
	for range 50 {
		require.NoError(t, f.admin.Stop(ctx, tx, f.create(1)[0]), "admin goes on")
	}
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	require.Equal(t, some, f.oldLeft())
	require.NoError(t, tx.Rollback(ctx))
	require.NoError(t, f.pruning(options{}).Prune(ctx))
	require.Zero(t, f.oldLeft(), "what was held goes another time")
	f.bounded(old)
}

// A worker that ends in the middle leaves the rest to the next, and so does one whose batch was deleted and nobody heard of it.
func TestPruneCutOff(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	const old, batches = 15000, 9
	for name, at := range map[string]when{"not received": before, "answer lost": after} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := logged(t, old)
			w := &wires{}
			e := f.pruning(options{pool: db.PoolOptions{Dial: w.dial}})
			n := batches + 1
			w.arm(1, at, func(statement, _ string) bool {
				if strings.Contains(statement, "name: EventPrune") {
					n--
				}
				return n == 0
			})
			require.Error(t, e.Prune(ctx))
			require.Equal(t, 1, w.done())
			left := old - old/100 - batches*defaults.PruneBatch
			if at == after {
				left -= defaults.PruneBatch
			}
			f.none(`SELECT abs($1 - count(*)) FROM berth.events WHERE kind = 'StateChanged' AND at < now() - $2::interval`, left, defaults.EventsKept)
			f.bounded(old)
			next := f.engine(nil, options{set: func(e *Engine) { e.pruneEvery = time.Millisecond }})
			eventually(t, func() bool { return f.oldLeft() == 0 }, "the next one goes on by itself")
			require.NoError(t, next.Prune(ctx))
			f.bounded(old)
		})
	}
}

// The rows are found by their age, whatever the planner believes of the tables.
func TestPruneByIndex(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := newFleet(t, dbtest.New(t), map[string]provisioner.Provisioner{"a": &scripted{}})
	e := f.pruning(options{})
	require.NoError(t, e.Prune(ctx))
	for query, index := range map[string]string{"EventPrune": "events_age_idx", "DeletedResourcePrune": "deleted_resources_age_idx"} {
		found := 0
		for _, c := range e.pool.AcquireAllIdle(ctx) {
			var name string
			err := c.QueryRow(ctx, `SELECT name FROM pg_prepared_statements WHERE statement LIKE '-- name: ' || $1 || ' %'`, query).Scan(&name)
			if err == nil {
				rows, err := c.Query(ctx, `EXPLAIN EXECUTE `+name+`('-infinity', '90 days', 1000)`, pgx.QueryExecModeSimpleProtocol)
				require.NoError(t, err)
				plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
				require.NoError(t, err)
				require.Contains(t, strings.Join(plan, "\n"), "Index Scan using "+index)
				require.NotContains(t, strings.Join(plan, "\n"), "Seq Scan")
				found++
			}
			c.Release()
		}
		require.Positive(t, found, query)
	}
}

// The id of a deployment is refused for ever once it was deleted, whatever was pruned.
func TestPruneKeepsDeletedIDs(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := newFleet(t, dbtest.New(t), map[string]provisioner.Provisioner{"a": &scripted{}})
	e := f.engine(map[string]provisioner.Provisioner{"a": &scripted{}}, options{})
	d := f.create(1)[0]
	f.tx(func(tx pgx.Tx) error { return f.admin.Delete(ctx, tx, d) })
	f.drive(e, f.runtime(d))
	require.Zero(t, f.count(`SELECT count(*) FROM berth.deployments`))
	f.exec(`UPDATE berth.events SET at = at - interval '10 years'`)
	f.exec(`UPDATE berth.deleted_resources SET deleted_at = now() - $1::interval`, defaults.DeletedKept)
	f.exec(`INSERT INTO berth.deleted_resources (id, provisioner, deleted_at) VALUES (gen_random_uuid(), 'a', now() - $1::interval + interval '1 hour')`, defaults.DeletedKept)
	for range 2 {
		require.NoError(t, e.Prune(ctx))
	}
	require.Equal(t, []string{lifecycle.DeploymentDeleted}, f.events(d))
	require.Equal(t, 1, f.count(`SELECT count(*) FROM berth.deleted_resources`), "the younger proof stays")
	err := pgx.BeginFunc(ctx, f.Pool, func(tx pgx.Tx) error {
		return f.admin.Create(ctx, tx, lifecycle.NewDeployment{ID: d, ProjectID: f.project})
	})
	require.ErrorIs(t, err, lifecycle.ErrConflict)
}

// Workers that died go once no lease names them: an unknown worker counts as alive.
func TestDeadWorkersGo(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	o := newOne(t, options{set: func(e *Engine) { e.dispatchEvery = time.Hour }})
	holder, idle, recent := uuid.New(), o.worker(false), o.worker(false)
	o.claimFor(holder, o.id)
	o.die(holder)
	o.exec(`UPDATE berth.workers SET alive_until = now() - 3 * $1::interval WHERE id = ANY($2)`, defaults.Lease, []uuid.UUID{holder, idle})
	known := func(id uuid.UUID) bool { return o.count(`SELECT count(*) FROM berth.workers WHERE id = $1`, id) == 1 }
	require.NoError(t, o.Dispatch(ctx))
	require.True(t, known(holder))
	require.True(t, known(recent))
	require.True(t, known(o.ID()))
	require.False(t, known(idle))
	o.exec(`UPDATE berth.provisioner_resources SET fence = NULL, leased_by = NULL, leased_until = NULL`)
	require.NoError(t, o.Dispatch(ctx))
	require.False(t, known(holder))
}
