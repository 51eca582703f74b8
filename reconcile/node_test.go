package reconcile

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
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
	if s.info.Types == nil {
		s.info.Types = []provisioner.ResourceType{provisioner.Runtime, "database"}
	}
	return s.info
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

func logger() *slog.Logger {
	level := slog.LevelError
	if os.Getenv("BERTH_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}

func newFleet(t testing.TB, database *dbtest.DB, backends map[string]provisioner.Provisioner) *fleet {
	t.Helper()
	ctx := context.Background()
	admin, err := lifecycle.NewClient("test", logger())
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
		if err := admin.AnnounceProvisioners(ctx, tx, set, first); err != nil {
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
	require.Eventually(f.t, func() bool { return f.count(sql, args...) == 0 }, 60*time.Second, 10*time.Millisecond, sql)
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

// node is a worker in this process.
type node struct {
	*Engine
	river *river.Client[pgx.Tx]
	stop  func()
}

func (f *fleet) start(backends map[string]provisioner.Provisioner) *node {
	f.t.Helper()
	return f.startWith(db.PoolOptions{}, backends)
}

func (f *fleet) startWith(o db.PoolOptions, backends map[string]provisioner.Provisioner) *node {
	f.t.Helper()
	ctx := context.Background()
	o.MaxConns, o.Worker = defaults.EnginePool, true
	pool := f.Open(f.t, o)
	own := f.Open(f.t, db.PoolOptions{MaxConns: defaults.QueuePool})
	worker, err := lifecycle.NewClient("worker", logger())
	require.NoError(f.t, err)
	e := New(Config{Pool: pool, Lifecycle: worker, Provisioners: backends, Logger: logger(), Version: "test"})
	n := &node{Engine: e}
	names := make([]string, 0, len(backends))
	for name := range backends {
		names = append(names, name)
	}
	require.NoError(f.t, e.Start(ctx))
	n.river, err = jobs.NewClient(own, jobs.Config{Provisioners: names, Driver: e, Logger: logger()})
	require.NoError(f.t, err)
	require.NoError(f.t, n.river.Start(ctx))
	stopped := false
	n.stop = func() {
		if stopped {
			return
		}
		stopped = true
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		require.NoError(f.t, n.river.StopAndCancel(ctx))
		require.NoError(f.t, e.Stop(ctx))
		closePools(pool, own)
	}
	f.t.Cleanup(n.stop)
	return n
}

func closePools(pools ...*pgxpool.Pool) {
	for _, p := range pools {
		p.Close()
	}
}
