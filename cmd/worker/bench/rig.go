package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// rig is a migrated database with a pool of runtimes that answer at once, an organization and a project.
type rig struct {
	url     string
	admin   *pgxpool.Pool
	client  *lifecycle.Client
	insert  *river.Client[pgx.Tx]
	project uuid.UUID
	spec    json.RawMessage
	stub    *http.Server
}

func newRig(ctx context.Context, url string, slots int) (*rig, error) {
	pool, err := db.Open(ctx, url, db.PoolOptions{MaxConns: 16, Name: "berth-bench"})
	if err != nil {
		return nil, err
	}
	r := &rig{url: url, admin: pool}
	if err := r.fill(ctx, slots); err != nil {
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

func (r *rig) fill(ctx context.Context, slots int) error {
	if err := db.Migrate(ctx, r.admin); err != nil {
		return err
	}
	r.stub = &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })}
	var runtimes []map[string]any
	for range hosts {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("listen for pings: %w", err)
		}
		go func() { _ = r.stub.Serve(listener) }()
		runtimes = append(runtimes, map[string]any{"host": "http://" + listener.Addr().String(), "slots": slots})
	}
	var err error
	if r.spec, err = json.Marshal(map[string]any{"runtimes": runtimes}); err != nil {
		return fmt.Errorf("encode a spec: %w", err)
	}
	if r.client, err = lifecycle.NewClient("bench", quiet()); err != nil {
		return err
	}
	r.insert, err = river.NewClient(riverpgxv5.New(nil), &river.Config{Schema: jobs.Schema, FetchCooldown: defaults.FetchCooldown, FetchPollInterval: defaults.FetchPoll, Logger: quiet()})
	if err != nil {
		return fmt.Errorf("make a client of the queue: %w", err)
	}
	return pgx.BeginFunc(ctx, r.admin, func(tx pgx.Tx) error {
		set := []lifecycle.Configured{{Name: poolName, Type: "static", Info: provisioner.Info{Types: []provisioner.ResourceType{provisioner.Runtime}}}}
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
	engine *reconcile.Engine
	river  *river.Client[pgx.Tx]
	pools  []*pgxpool.Pool
}

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
	backend, err := static.Factory(dbstatic.New(pool))(poolName, r.spec, provisioner.Options{})
	if err != nil {
		return w, err
	}
	client, err := lifecycle.NewClient("worker", quiet())
	if err != nil {
		return w, err
	}
	w.engine = reconcile.New(reconcile.Config{Pool: pool, Lifecycle: client, Provisioners: map[string]provisioner.Provisioner{poolName: backend}, Logger: quiet(), Version: "bench"})
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
