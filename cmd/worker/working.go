package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"berth/db"
	"berth/internal/defaults"
	"berth/internal/health"
	"berth/internal/telemetry"
	"berth/jobs"
	"berth/lifecycle"
	"berth/provisioner"
	"berth/reconcile"
)

// working is a process that takes jobs: the engine, the client of the queue, and what they stand on.
type working struct {
	engine  *reconcile.Engine
	queue   interface{ Stop(context.Context) error }
	logger  *slog.Logger
	closers []func() error
}

// workOptions say how a process takes jobs.
type workOptions struct {
	maxWorkers  int
	rolloutRate float64
	alone       bool // no other process matters: what is configured here acts at once, but the default stays where there is one

	health *health.Server       // told of what is worked; nil for none
	traces *telemetry.Telemetry // nil for none
}

// work starts a process that takes jobs of the configured provisioners. It refuses a schema that is not the one it knows, a clock
// that is off, and a provisioner whose type changed. Nothing of it is left running after an error.
func work(ctx context.Context, url string, f configured, o workOptions, logger *slog.Logger) (_ *working, err error) {
	w := &working{logger: logger}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.stop(context.WithoutCancel(ctx)))
		}
	}()
	pool, err := w.open(ctx, url, db.PoolOptions{MaxConns: defaults.EnginePool, Worker: true, Name: "berth worker", Tracer: o.traces.Statements()})
	if err != nil {
		return nil, err
	}
	if err := db.RequireCurrent(ctx, pool); err != nil {
		return nil, err
	}
	if err := db.RequireClock(ctx, pool, time.Now); err != nil {
		return nil, err
	}
	queuePool, err := w.open(ctx, url, db.PoolOptions{MaxConns: defaults.QueuePool, Queue: true, Name: "berth queue"})
	if err != nil {
		return nil, err
	}
	set, err := f.parse(pool)
	if err != nil {
		return nil, err
	}
	w.closers = append(w.closers, set.Close)
	client, err := lifecycle.NewClient("worker", logger)
	if err != nil {
		return nil, err
	}
	if err := (&admin{client, pool}).register(ctx, known(set)); err != nil {
		return nil, err
	}
	c := reconcile.Config{Pool: pool, Lifecycle: client, Provisioners: map[string]provisioner.Provisioner{}, Digests: map[string]string{},
		Alone: o.alone, RolloutRate: o.rolloutRate, Logger: logger, Version: programVersion()}
	for _, e := range set.All() {
		c.Provisioners[e.Name], c.Digests[e.Name] = e.Provisioner, set.Digest(e.Name)
	}
	if !o.alone {
		c.Default = set.Default()
	}
	w.engine = reconcile.New(c)
	config := jobs.Config{MaxWorkers: o.maxWorkers, Driver: w.engine, Logger: queueLogger(logger), ID: uuid.NewString(), Tracer: o.traces.Provider()}
	if o.health != nil {
		config.Worked = o.health.Worked
	}
	queue, err := jobs.NewClient(queuePool, config)
	if err != nil {
		return nil, err
	}
	w.engine.Serve(jobs.NewQueues(queue, o.maxWorkers))
	if err := w.engine.Start(ctx); err != nil {
		return nil, err
	}
	if err := queue.Start(context.WithoutCancel(ctx)); err != nil { // it is stopped by Stop, softly
		return nil, err
	}
	w.queue = queue
	if o.health != nil {
		o.health.Started(health.Worker{Pool: pool, Engine: w.engine, Queue: queue})
	}
	logger.Info("started: jobs are taken", slog.Any("provisioners", set.Names()), slog.String("version", programVersion()),
		slog.String("runtime_version", cmp.Or(f.options.RuntimeVersion, "latest")))
	return w, nil
}

func (w *working) open(ctx context.Context, url string, o db.PoolOptions) (*pgxpool.Pool, error) {
	pool, err := db.Open(ctx, url, o)
	if err == nil {
		w.closers = append(w.closers, func() error { pool.Close(); return nil })
	}
	return pool, err
}

// stop takes no more jobs, lets running steps finish within defaults.ShutdownSoft, cancels what is left, and gives the leases
// back. It may be called when only a part has started.
func (w *working) stop(ctx context.Context) error {
	var errs []error
	if w.queue != nil {
		stopping, cancel := context.WithTimeoutCause(ctx, defaults.ShutdownSoft+defaults.ShutdownHard, errors.New("running steps did not end in time"))
		errs = append(errs, w.queue.Stop(stopping))
		cancel()
	}
	if w.engine != nil {
		stopping, cancel := context.WithTimeoutCause(ctx, defaults.ShutdownHard, errors.New("outcomes could not be stored in time"))
		errs = append(errs, w.engine.Stop(stopping))
		cancel()
	}
	for _, c := range slices.Backward(w.closers) {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}
