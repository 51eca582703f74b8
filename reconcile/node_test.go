package reconcile

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/stretchr/testify/require"

	"berth/db"
	"berth/db/dbtest"
	"berth/internal/defaults"
	"berth/jobs"
	"berth/lifecycle"
	"berth/provisioner"
)

// scripted is a backend made of functions. One that is nil does at once what is asked.
type scripted struct {
	info        provisioner.Info
	reconcile   func(context.Context, *provisioner.Resource) (provisioner.Observation, error)
	hibernate   func(context.Context, *provisioner.Resource) (provisioner.Observation, error)
	deprovision func(context.Context, *provisioner.Resource) (provisioner.Observation, error)
	watch       func(context.Context, func(uuid.UUID)) error
}

func (s *scripted) Info() provisioner.Info {
	i := s.info
	if i.Types == nil {
		i.Types = []provisioner.ResourceType{provisioner.Runtime, "database"}
	}
	return i
}

func (s *scripted) Reconcile(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
	if s.reconcile != nil {
		return s.reconcile(ctx, r)
	}
	return provisioner.Observation{Phase: provisioner.PhaseReady}, nil
}

func (s *scripted) Hibernate(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
	if s.hibernate != nil {
		return s.hibernate(ctx, r)
	}
	return provisioner.Observation{Phase: provisioner.PhaseHibernated}, nil
}

func (s *scripted) Deprovision(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
	if s.deprovision != nil {
		return s.deprovision(ctx, r)
	}
	return provisioner.Observation{Phase: provisioner.PhaseAbsent}, nil
}

func (s *scripted) Observe(context.Context, []provisioner.Resource) ([]provisioner.Observation, error) {
	return nil, provisioner.ErrUnavailable
}

func (s *scripted) Check(context.Context) (provisioner.Capacity, error) {
	return provisioner.Capacity{}, nil
}

func (s *scripted) Watch(ctx context.Context, changed func(uuid.UUID)) error {
	if s.watch != nil {
		return s.watch(ctx, changed)
	}
	<-ctx.Done()
	return nil
}

// fleet is a database with an organization, a project, and provisioners.
type fleet struct {
	*dbtest.DB
	t       testing.TB
	admin   *lifecycle.Client
	project uuid.UUID
}

// quiet logs nothing, unless one wants to see.
func quiet() *slog.Logger {
	if os.Getenv("BERTH_TEST_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func newFleet(t testing.TB, database *dbtest.DB, backends map[string]provisioner.Provisioner) *fleet {
	t.Helper()
	ctx := context.Background()
	admin, err := lifecycle.NewClient("test", quiet())
	require.NoError(t, err)
	f := &fleet{DB: database, t: t, admin: admin}
	f.tx(func(tx pgx.Tx) error {
		var set []lifecycle.Configured
		first := ""
		for name, b := range backends {
			set = append(set, lifecycle.Configured{Name: name, Type: "scripted", Info: b.Info()})
			if first == "" || name < first {
				first = name
			}
		}
		if err := admin.RegisterProvisioners(ctx, tx, set, first); err != nil {
			return err
		}
		o, err := admin.CreateOrganization(ctx, tx, "acme", "")
		if err != nil {
			return err
		}
		p, err := admin.CreateProject(ctx, tx, lifecycle.NewProject{OrganizationID: o.ID, Name: "web"})
		f.project = p.ID
		return err
	})
	return f
}

func (f *fleet) tx(do func(pgx.Tx) error) {
	f.t.Helper()
	require.NoError(f.t, pgx.BeginFunc(context.Background(), f.Pool, do))
}

// create makes n deployments.
func (f *fleet) create(n int) []uuid.UUID {
	f.t.Helper()
	ids := make([]uuid.UUID, n)
	ds := make([]lifecycle.NewDeployment, n)
	for i := range ids {
		ids[i] = uuid.New()
		ds[i] = lifecycle.NewDeployment{ID: ids[i], ProjectID: f.project}
	}
	f.tx(func(tx pgx.Tx) error { return f.admin.Create(context.Background(), tx, ds...) })
	return ids
}

// count asks for one number.
func (f *fleet) count(sql string, args ...any) (n int) {
	f.t.Helper()
	require.NoError(f.t, f.Pool.QueryRow(context.Background(), sql, args...).Scan(&n))
	return n
}

// none waits until the count is zero.
func (f *fleet) none(sql string, args ...any) {
	f.t.Helper()
	if !comes(func() bool { return f.count(sql, args...) == 0 }) {
		f.t.Fatalf("never zero but %d: %s\n%s", f.count(sql, args...), sql, f.describe())
	}
}

// describe is how things stand, for whoever has to find out why a test failed.
func (f *fleet) describe() (out string) {
	f.t.Helper()
	f.row(`SELECT concat_ws(E'\n',
		(SELECT string_agg(format('jobs %s %s %s: %s, oldest %s', queue, kind, state, n, age), E'\n') FROM (SELECT queue, kind, state, count(*) n, clock_timestamp() - min(scheduled_at) age FROM berth.river_job GROUP BY 1, 2, 3) j),
		(SELECT string_agg(format('places %s %s%s%s: %s, due in %s to %s, failures %s, lost %s, %s', desired_phase, phase, w, l, n, a, b, failures, lost, reason), E'\n') FROM (
			SELECT desired_phase, phase, CASE WHEN claimed_generation < generation THEN ' waiting' END w, CASE WHEN fence IS NOT NULL THEN ' leased' END l,
				min(retry_at) - clock_timestamp() a, max(retry_at) - clock_timestamp() b, max(failures) failures, max(lost) lost, reason, count(*) n
			FROM berth.provisioner_resources GROUP BY 1, 2, 3, 4, reason) p),
		(SELECT string_agg(format('deployments %s %s: %s', desired_state, state, n), E'\n') FROM (SELECT desired_state, state, count(*) n FROM berth.deployments GROUP BY 1, 2) d),
		(SELECT string_agg(format('worker alive for %s', alive_until - clock_timestamp()), E'\n') FROM berth.workers),
		(SELECT string_agg(format('session %s %s %s for %s: %s', application_name, state, wait_event, clock_timestamp() - state_change, left(query, 60)), E'\n')
			FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()))`, nil, &out)
	return out
}

// comes polls, for three minutes: a machine may be busy with much else.
func comes(is func() bool) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); <-tick.C {
		if is() {
			return true
		}
	}
	return false
}

func (f *fleet) allRunning() {
	f.t.Helper()
	f.none(`SELECT count(*) FROM berth.deployments WHERE state <> 'running'`)
}

// clean waits until nothing of any deployment is left.
func (f *fleet) clean() {
	f.t.Helper()
	f.none(`SELECT (SELECT count(*) FROM berth.deployments) + (SELECT count(*) FROM berth.provisioner_resources) +
		(SELECT count(*) FROM berth.river_job WHERE finalized_at IS NULL)`)
}

// row asks for one row.
func (f *fleet) row(sql string, args []any, into ...any) {
	f.t.Helper()
	require.NoError(f.t, f.Pool.QueryRow(context.Background(), sql, args...).Scan(into...))
}

func (f *fleet) exec(sql string, args ...any) {
	f.t.Helper()
	_, err := f.Pool.Exec(context.Background(), sql, args...)
	require.NoError(f.t, err)
}

// runtime is the id of a deployment's runtime.
func (f *fleet) runtime(deployment uuid.UUID) (id uuid.UUID) {
	f.t.Helper()
	f.row(`SELECT id FROM berth.provisioner_resources WHERE deployment_id = $1 AND type = 'runtime' ORDER BY created_at DESC LIMIT 1`, []any{deployment}, &id)
	return id
}

// stand is how a place stands.
type stand struct {
	Desired, Phase, Reason, Message            string
	State, Config                              string
	Failures, Lost                             int
	GivenUp, Leased, Settled, Waiting, HasLook bool
}

func (f *fleet) stand(id uuid.UUID) (s stand) {
	f.t.Helper()
	f.row(`SELECT desired_phase, phase, reason, message, state, config, failures, lost, given_up_at IS NOT NULL, fence IS NOT NULL,
		observed_generation >= intent_generation AND phase = desired_phase, claimed_generation < generation, retry_at IS NOT NULL
		FROM berth.provisioner_resources WHERE id = $1`, []any{id},
		&s.Desired, &s.Phase, &s.Reason, &s.Message, &s.State, &s.Config, &s.Failures, &s.Lost, &s.GivenUp, &s.Leased, &s.Settled, &s.Waiting, &s.HasLook)
	return s
}

func (f *fleet) state(deployment uuid.UUID) (state string) {
	f.t.Helper()
	f.row(`SELECT state FROM berth.deployments WHERE id = $1`, []any{deployment}, &state)
	return state
}

// events are the kinds of what happened to a deployment, changes of its state with the new one.
func (f *fleet) events(deployment uuid.UUID) []string {
	f.t.Helper()
	rows, err := f.Pool.Query(context.Background(), `SELECT kind || coalesce(' ' || (detail ->> 'new'), '') FROM berth.events WHERE deployment_id = $1 ORDER BY id`, deployment)
	require.NoError(f.t, err)
	kinds, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(f.t, err)
	return kinds
}

// eventually waits until something is so.
func eventually(t testing.TB, is func() bool, what string) {
	t.Helper()
	if !comes(is) {
		t.Fatal("never so: " + what)
	}
}

// options say how a worker differs from the usual.
type options struct {
	pool db.PoolOptions
	log  *slog.Logger
	set  func(*Engine)
	as   Config // what else is configured
}

// engine starts one that no queue drives: the test does, or the engine's own loops.
func (f *fleet) engine(backends map[string]provisioner.Provisioner, o options) *Engine {
	f.t.Helper()
	e := f.unstarted(backends, o)
	require.NoError(f.t, e.Start(context.Background()))
	return e
}

func (f *fleet) unstarted(backends map[string]provisioner.Provisioner, o options) *Engine {
	f.t.Helper()
	o.pool.MaxConns, o.pool.Worker = max(o.pool.MaxConns, defaults.EnginePool), true
	if o.log == nil {
		o.log = quiet()
	}
	pool := f.Open(f.t, o.pool)
	worker, err := lifecycle.NewClient("worker", o.log)
	require.NoError(f.t, err)
	c := o.as
	c.Pool, c.Lifecycle, c.Provisioners, c.Logger, c.Version = pool, worker, backends, o.log, "test"
	e := New(c)
	if o.set != nil {
		o.set(e)
	}
	f.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		require.NoError(f.t, e.Stop(ctx))
	})
	return e
}

// drive takes one step with a deployment's runtime.
func (f *fleet) drive(e *Engine, id uuid.UUID) {
	f.t.Helper()
	require.NoError(f.t, e.Drive(context.Background(), id, "a"))
}

// wake has a place claimable, whatever it waits for.
func (f *fleet) wake(id uuid.UUID) {
	f.t.Helper()
	f.exec(`UPDATE berth.provisioner_resources SET generation = claimed_generation + 1 WHERE id = $1`, id)
}

// node is a worker in this process, its queue included.
type node struct {
	*Engine
	river *river.Client[pgx.Tx]
	stop  func()
}

func (f *fleet) start(backends map[string]provisioner.Provisioner) *node {
	f.t.Helper()
	return f.startWith(options{}, backends)
}

func (f *fleet) startWith(o options, backends map[string]provisioner.Provisioner) *node {
	f.t.Helper()
	if o.log == nil {
		o.log = quiet()
	}
	n := &node{Engine: f.unstarted(backends, o)}
	own := f.Open(f.t, db.PoolOptions{MaxConns: defaults.QueuePool, Queue: true})
	var err error
	n.river, err = jobs.NewClient(own, jobs.Config{Driver: n.Engine, Logger: o.log})
	require.NoError(f.t, err)
	n.Serve(jobs.NewQueues(n.river, 0))
	require.NoError(f.t, n.Start(context.Background()))
	require.NoError(f.t, n.river.Start(context.Background()))
	n.stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		require.NoError(f.t, n.river.StopAndCancel(ctx))
		require.NoError(f.t, n.Stop(ctx))
	})
	f.t.Cleanup(n.stop)
	return n
}

// claimFor has a worker claim a place and never be heard of again.
func (f *fleet) claimFor(worker, id uuid.UUID) {
	f.t.Helper()
	require.Equal(f.t, 1, f.count(`SELECT count(*) FROM berth.claim(ARRAY[$1::uuid], ARRAY['a'], ARRAY[$2::uuid], $3, interval '1 minute', interval '6 seconds', true, interval '30 seconds') WHERE NOT held`, id, uuid.New(), worker))
}

// deleteAll deletes deployments and waits until nothing of them is left.
func (f *fleet) deleteAll(ids []uuid.UUID) {
	f.t.Helper()
	f.tx(func(tx pgx.Tx) error { return f.admin.Delete(context.Background(), tx, ids...) })
	f.clean()
}

// counting is a log that counts its lines.
type counting struct {
	mu    sync.Mutex
	lines []string
}

func (c *counting) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, string(p))
	return len(p), nil
}

func (c *counting) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(c, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// count is how many lines hold a text.
func (c *counting) count(text string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range c.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}
