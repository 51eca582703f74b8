package reconcile

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/db"
	"berth/internal/defaults"
	"berth/provisioner"
	"berth/provisioner/provisionertest"
)

// running makes n deployments that have long been running, without driving them.
func (f *fleet) running(n int) (ids []uuid.UUID) {
	f.t.Helper()
	rows, err := f.Pool.Query(context.Background(), `WITH d AS (
			INSERT INTO berth.deployments (id, project_id, desired_state, state) SELECT gen_random_uuid(), $1, 'running', 'running' FROM generate_series(1, $2) RETURNING id
		), p AS (
			INSERT INTO berth.provisioner_resources (id, provisioner, deployment_id, type, desired_phase, args, phase, claimed_generation, observed_generation)
			SELECT gen_random_uuid(), 'a', id, 'runtime', 'ready', '{"slots": 1}', 'ready', 1, 1 FROM d
		) SELECT id FROM d ORDER BY id`, f.project, n)
	require.NoError(f.t, err)
	ids, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	require.NoError(f.t, err)
	return ids
}

// held is how long an admin keeps a transaction open.
const held = 10 * time.Second

// othersGoOn creates deployments one after another for as long as something is held, and demands that each comes to run. All but
// those that queue behind what was asked for before them do so by their own job, before the dispatcher would help.
func (f *fleet) othersGoOn() {
	f.t.Helper()
	var took []time.Duration
	for end := time.Now().Add(held); time.Now().Before(end) || len(took) < 20; {
		begun := time.Now()
		id := f.create(1)[0]
		f.none(`SELECT count(*) FROM berth.deployments WHERE id = $1 AND state <> 'running'`, id)
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	n := len(took)
	f.t.Logf("others meanwhile, create to running: n %d, p50 %v, p99 %v, max %v", n, took[n/2], took[n*99/100], took[n-1])
	require.Less(f.t, took[(n-1)*95/100], defaults.Grace) // of a machine that is busy with more, one in twenty may come later
}

// noDeadlock demands that the server never had to end one.
func (f *fleet) noDeadlock() {
	f.t.Helper()
	f.exec(`SELECT pg_stat_clear_snapshot()`)
	require.Zero(f.t, f.count(`SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`))
}

// An admin's transaction holds deployments for ten seconds: others go on, the admin is never refused, and afterwards all is
// as it was asked to be.
func TestAdminHolds(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	const many = 5000
	for name, c := range map[string]struct {
		reason string
		n      int
		before func(f *fleet, ids []uuid.UUID)                                       // committed
		within func(ctx context.Context, f *fleet, tx pgx.Tx, ids []uuid.UUID) error // and kept open
		after  func(ctx context.Context, f *fleet, tx pgx.Tx, ids []uuid.UUID) error // before it commits
		state  string
	}{
		"one, locked with its run under way": {
			"its outcome waits off its slot", 1,
			func(f *fleet, ids []uuid.UUID) { f.tx(func(tx pgx.Tx) error { return f.admin.Stop(ctx, tx, ids...) }) },
			func(ctx context.Context, _ *fleet, tx pgx.Tx, ids []uuid.UUID) error {
				_, err := tx.Exec(ctx, `SELECT FROM berth.deployments WHERE id = ANY($1) ORDER BY id FOR UPDATE`, ids)
				return err
			},
			nil, "stopped",
		},
		"many, changed": {
			"in one transaction that stays open", many, nil,
			func(ctx context.Context, f *fleet, tx pgx.Tx, ids []uuid.UUID) error {
				return f.admin.Stop(ctx, tx, ids...)
			},
			nil, "stopped",
		},
		"many, only locked, with their runs under way": {
			"what could not be stored is not begun", many,
			func(f *fleet, ids []uuid.UUID) { f.tx(func(tx pgx.Tx) error { return f.admin.Stop(ctx, tx, ids...) }) },
			func(ctx context.Context, _ *fleet, tx pgx.Tx, ids []uuid.UUID) error {
				_, err := tx.Exec(ctx, `SELECT FROM berth.deployments WHERE id = ANY($1) ORDER BY id FOR UPDATE`, ids)
				return err
			},
			func(ctx context.Context, f *fleet, tx pgx.Tx, ids []uuid.UUID) error {
				return f.admin.Start(ctx, tx, ids...)
			},
			"running",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, fake, backends := faked(t)
			ids := f.running(c.n)
			f.exec(`ANALYZE`) // the queue is known to be empty, as it is in quiet hours
			log := &counting{}
			n := f.startWith(options{log: log.logger()}, backends)
			underWay := func() {
				require.NoError(t, fake.Await(ctx, provisionertest.Hibernate, uuid.Nil, 50))
			}
			over := func() {}
			if c.before != nil && c.n == 1 {
				reached, open := make(chan struct{}), make(chan struct{})
				fake.Script(provisionertest.Hibernate, provisionertest.Gate(reached, open, false))
				underWay = func() { <-reached }
				over = func() {
					close(open)
					f.none(`SELECT count(*) FROM berth.river_job WHERE finalized_at IS NULL`)
					require.Equal(t, 1, f.count(`SELECT count(*) FROM berth.provisioner_resources WHERE fence IS NOT NULL`), "the job is done, and its outcome waits")
				}
			}
			if c.before != nil {
				c.before(f, ids)
				underWay()
			}
			tx, err := f.Pool.Begin(ctx)
			require.NoError(t, err)
			require.NoError(t, c.within(ctx, f, tx, ids), "%s: admin is never refused", c.reason)
			over()
			f.othersGoOn()
			if c.after != nil {
				require.NoError(t, c.after(ctx, f, tx, ids), "%s: admin is never refused", c.reason)
			}
			require.NoError(t, tx.Commit(ctx))
			f.none(`SELECT count(*) FROM berth.deployments WHERE id = ANY($1) AND state <> $2`, ids, c.state)
			n.stop()
			require.Zero(t, log.count("taken over"))
			require.Empty(t, fake.World.Overlaps())
			f.noDeadlock()
		})
	}
}

// A worker that stops inside a transaction keeps what it locked from an admin no longer than the server lets it.
func TestWorkerFrozenInATransaction(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f, fake, backends := faked(t)
	d := f.create(1)[0]
	frozen := f.Open(t, db.PoolOptions{MaxConns: 1, Worker: true})
	tx, err := frozen.Begin(ctx)
	require.NoError(t, err)
	for _, q := range []string{`SELECT FROM berth.deployments FOR NO KEY UPDATE`, `SELECT FROM berth.provisioner_resources FOR NO KEY UPDATE`} {
		_, err = tx.Exec(ctx, q)
		require.NoError(t, err)
	}
	f.start(backends)
	// It waits for the lock, in the server; nothing here would end that but the frozen session's end.
	f.deleteAll([]uuid.UUID{d})
	require.Error(t, tx.Commit(ctx), "what it did is undone")
	require.Zero(t, fake.Count(provisionertest.Reconcile), "the claim did not wait either")
	empty(t, fake)
}

// An outcome that can not be stored while its lease lasts gives the place back, with what the backend noted and nothing counted.
func TestOutcomeNotStoredInTime(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	o := newOne(t, options{})
	p, err := o.claimOnce(ctx, o.id, "a")
	require.NoError(t, err)
	tx, err := o.Pool.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `SELECT FROM berth.deployments FOR NO KEY UPDATE`)
	require.NoError(t, err)
	p.until = time.Now()
	out := verdict(time.Now(), o.backends["a"], p, ready, nil)
	out.state, out.config = []byte(`{"password": "x"}`), p.config
	o.store(out)
	eventually(t, func() bool { return !o.stand(o.id).Leased }, "it is given back")
	s := o.stand(o.id)
	require.Equal(t, stand{Desired: "ready", Phase: "unknown", State: `{"password": "x"}`, Config: "{}", Waiting: true, HasLook: true}, s)
	require.NoError(t, tx.Rollback(ctx))
	o.backend.reconcile = says(ready, nil)
	o.drive(o.Engine, o.id)
	require.Equal(t, "running", o.state(o.deployment))
	require.Zero(t, o.stand(o.id).Lost)
}

// An outcome waits while somebody holds what it needs, and is stored as soon as that is let go.
func TestOutcomeIsParked(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, table := range []string{"deployments", "provisioner_resources"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			o := newOne(t, options{})
			var tx pgx.Tx
			o.backend.reconcile = func(context.Context, *provisioner.Resource) (provisioner.Observation, error) {
				var err error
				tx, err = o.Pool.Begin(ctx)
				require.NoError(t, err)
				_, err = tx.Exec(ctx, `SELECT FROM berth.`+table+` FOR NO KEY UPDATE`)
				return ready, err
			}
			require.NoError(t, o.Drive(ctx, o.id, "a"), "the job is done, and its slot free")
			require.Equal(t, "pending", o.state(o.deployment))
			require.Zero(t, o.pool.Stat().AcquiredConns(), "it waits on no connection")
			require.NoError(t, tx.Rollback(ctx))
			eventually(t, func() bool { return o.state(o.deployment) == "running" }, "it is stored")
			require.False(t, o.stand(o.id).Leased)
		})
	}
}
