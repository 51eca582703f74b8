package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"berth/db"
	"berth/db/dbstatic"
	"berth/internal/defaults"
	"berth/jobs"
	"berth/lifecycle"
	"berth/provisioner"
	"berth/provisioner/static"
	"berth/reconcile"
)

const (
	poolName = "pool"
	hosts    = 10
)

// rig is a migrated database with a provisioner, an organization and a project.
type rig struct {
	url     string
	admin   *pgxpool.Pool
	client  *lifecycle.Client
	insert  *river.Client[pgx.Tx]
	project uuid.UUID
	backend func(*pgxpool.Pool) (provisioner.Provisioner, error) // as each worker makes it
	stub    *http.Server                                         // nil where there are no stub runtimes
}

// newRig has a pool of runtimes that answer at once.
func newRig(ctx context.Context, url string, slots int) (*rig, error) {
	stub, spec, err := runtimes(ctx, slots)
	if err != nil {
		return nil, err
	}
	r, err := openRig(ctx, url, static.Type, func(pool *pgxpool.Pool) (provisioner.Provisioner, error) {
		return static.Factory(dbstatic.New(pool))(poolName, spec, provisioner.Options{})
	})
	if err != nil {
		return nil, errors.Join(err, stub.Close())
	}
	r.stub = stub
	return r, nil
}

// openRig has whatever a backend is.
func openRig(ctx context.Context, url, kind string, backend func(*pgxpool.Pool) (provisioner.Provisioner, error)) (*rig, error) {
	pool, err := db.Open(ctx, url, db.PoolOptions{MaxConns: 16, Name: "berth-bench"})
	if err != nil {
		return nil, err
	}
	r := &rig{url: url, admin: pool, backend: backend}
	if err := r.fill(ctx, kind); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *rig) close() error {
	r.admin.Close()
	if r.stub != nil {
		return r.stub.Close()
	}
	return nil
}

// runtimes starts stub runtimes, and returns the spec of a pool of them.
func runtimes(ctx context.Context, slots int) (_ *http.Server, _ json.RawMessage, err error) {
	stub := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })}
	defer func() {
		if err != nil {
			err = errors.Join(err, stub.Close())
		}
	}()
	var all []map[string]any
	for range hosts {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, nil, fmt.Errorf("listen for pings: %w", err)
		}
		go func() { _ = stub.Serve(listener) }()
		all = append(all, map[string]any{"host": "http://" + listener.Addr().String(), "slots": slots})
	}
	spec, err := json.Marshal(map[string]any{"runtimes": all})
	if err != nil {
		return nil, nil, fmt.Errorf("encode a spec: %w", err)
	}
	return stub, spec, nil
}

func (r *rig) fill(ctx context.Context, kind string) (err error) {
	if err := db.Migrate(ctx, r.admin); err != nil {
		return err
	}
	if r.client, err = lifecycle.NewClient("bench", quiet()); err != nil {
		return err
	}
	r.insert, err = river.NewClient(riverpgxv5.New(nil), &river.Config{Schema: jobs.Schema, FetchCooldown: defaults.FetchCooldown, FetchPollInterval: defaults.FetchPoll, Logger: quiet()})
	if err != nil {
		return fmt.Errorf("make a client of the queue: %w", err)
	}
	return pgx.BeginFunc(ctx, r.admin, func(tx pgx.Tx) error {
		set := []lifecycle.Configured{{Name: poolName, Type: kind, Info: provisioner.Info{Types: []provisioner.ResourceType{provisioner.Runtime}}}}
		if err := r.client.RegisterProvisioners(ctx, tx, set, poolName); err != nil {
			return err
		}
		o, err := r.client.CreateOrganization(ctx, tx, "bench", "")
		if err != nil {
			return err
		}
		p, err := r.client.CreateProject(ctx, tx, lifecycle.NewProject{OrganizationID: o.ID, Name: "web"})
		r.project = p.ID
		return err
	})
}

// create makes n deployments in one transaction.
func (r *rig) create(ctx context.Context, ids ...uuid.UUID) error {
	ds := make([]lifecycle.NewDeployment, len(ids))
	for i, id := range ids {
		ds[i] = lifecycle.NewDeployment{ID: id, ProjectID: r.project}
	}
	return pgx.BeginFunc(ctx, r.admin, func(tx pgx.Tx) error { return r.client.Create(ctx, tx, ds...) })
}

// worker is a whole worker in this process.
type worker struct {
	engine  *reconcile.Engine
	river   *river.Client[pgx.Tx]
	backend provisioner.Provisioner
	pools   []*pgxpool.Pool
}

// work starts one. It watches its backend, if that can be watched. began is told of each job that does nothing.
func (r *rig) work(ctx context.Context, began func(noopArgs)) (w *worker, err error) {
	w = &worker{}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.stop())
		}
	}()
	pool, err := db.Open(ctx, r.url, db.PoolOptions{MaxConns: defaults.EnginePool, Worker: true})
	if err != nil {
		return w, err
	}
	w.pools = append(w.pools, pool)
	own, err := db.Open(ctx, r.url, db.PoolOptions{MaxConns: defaults.QueuePool, Queue: true})
	if err != nil {
		return w, err
	}
	w.pools = append(w.pools, own)
	if w.backend, err = r.backend(pool); err != nil {
		return w, err
	}
	client, err := lifecycle.NewClient("worker", quiet())
	if err != nil {
		return w, err
	}
	w.engine = reconcile.New(reconcile.Config{Pool: pool, Lifecycle: client, Provisioners: map[string]provisioner.Provisioner{poolName: w.backend}, Logger: quiet(), Version: "bench"})
	if err := w.engine.Start(ctx); err != nil {
		return w, err
	}
	kinds := river.NewWorkers()
	if err := river.AddWorkerSafely(kinds, &noopWorker{began: began}); err != nil {
		return w, fmt.Errorf("register the yardstick: %w", err)
	}
	w.river, err = jobs.NewClient(own, jobs.Config{
		Driver: w.engine, Logger: quiet(), Workers: kinds, Queues: []string{noopQueue},
	})
	if err != nil {
		return w, err
	}
	if err := jobs.NewQueues(w.river, 0).Work(poolName); err != nil {
		return w, err
	}
	if err := w.river.Start(ctx); err != nil {
		return w, fmt.Errorf("start the queue: %w", err)
	}
	return w, nil
}

func (w *worker) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var errs []error
	if w.river != nil {
		errs = append(errs, w.river.Stop(ctx))
	}
	if w.engine != nil {
		errs = append(errs, w.engine.Stop(ctx))
	}
	if c, ok := w.backend.(io.Closer); ok {
		errs = append(errs, c.Close())
	}
	for _, p := range w.pools {
		p.Close()
	}
	return errors.Join(errs...)
}

// until asks for a count until it is zero.
func (r *rig) until(ctx context.Context, most time.Duration, count string) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		var n int
		if err := r.admin.QueryRow(ctx, count).Scan(&n); err != nil {
			return fmt.Errorf("wait for %q: %w", count, err)
		}
		if n == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %q: %d left: %w", count, n, ctx.Err())
		}
	}
}

// vacuum gives every measurement the same tidy tables.
func (r *rig) vacuum(ctx context.Context) error {
	_, err := r.admin.Exec(ctx, `VACUUM ANALYZE`)
	return err
}

func quiet() *slog.Logger {
	return slog.New(slog.DiscardHandler)
}
