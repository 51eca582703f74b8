package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
	"go.opentelemetry.io/otel/trace"

	"berth/internal/defaults"
)

// Schema is where River's tables live.
const Schema = "berth"

// Config says how a client works. It begins with the shared queue; see Queues for those of provisioners.
type Config struct {
	MaxWorkers int // jobs at once in each queue; 0 is the default
	Driver     Driver
	Logger     *slog.Logger
	ID         string             // names this client in River's records
	Workers    *river.Workers     // further kinds; nil for none
	Queues     []string           // further queues, for those kinds
	Errors     river.ErrorHandler // told of failed jobs; nil for none

	Worked func(kind, outcome string, took time.Duration) // told of each job that was run; nil for none
	Tracer trace.TracerProvider                           // of the spans of the runs; nil for none
}

// NewClient makes a client of the queue that is ready to be started. The pool is River's alone: jobs that hold connections
// must not starve its leadership and completions.
func NewClient(pool *pgxpool.Pool, c Config) (*river.Client[pgx.Tx], error) {
	workers := c.Workers
	if workers == nil {
		workers = river.NewWorkers()
	}
	err := errors.Join(
		river.AddWorkerSafely(workers, &placeWorker[ProvisionArgs]{driver: c.Driver}),
		river.AddWorkerSafely(workers, &placeWorker[HibernateArgs]{driver: c.Driver}),
		river.AddWorkerSafely(workers, &placeWorker[DeprovisionArgs]{driver: c.Driver}),
	)
	if err != nil {
		return nil, fmt.Errorf("register the kinds of jobs: %w", err)
	}
	queue := queueConfig(c.MaxWorkers)
	queues := map[string]river.QueueConfig{Shared: queue}
	for _, q := range c.Queues {
		queues[q] = queue
	}
	middleware := []rivertype.Middleware{&guard{worked: c.Worked}}
	if c.Tracer != nil {
		middleware = append(middleware, newTracing(c.Tracer))
	}
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		ID: c.ID, Schema: Schema, Logger: c.Logger,
		Workers: workers, Queues: queues, FetchOnlyKnownKinds: true,
		FetchCooldown: defaults.FetchCooldown, FetchPollInterval: defaults.FetchPoll,
		JobTimeout: defaults.JobTimeout, RescueStuckJobsAfter: defaults.RescueAfter, MaxAttempts: defaults.JobMaxAttempts,
		CompletedJobRetentionPeriod: defaults.JobsKept, CancelledJobRetentionPeriod: defaults.JobsKept, DiscardedJobRetentionPeriod: defaults.DiscardedKept,
		SoftStopTimeout: defaults.ShutdownSoft,
		Middleware:      middleware,
		ErrorHandler:    c.Errors,
	})
	if err != nil {
		return nil, fmt.Errorf("make a client of the queue: %w", err)
	}
	return client, nil
}

// backgroundWorkers is how many jobs that nobody waits for are worked at once, beside so many others.
func backgroundWorkers(maxWorkers int) int { return max(1, maxWorkers/defaults.BackgroundShare) }

var _ rivertype.WorkerMiddleware = (*guard)(nil)

// guard keeps what a job returns storable. A NUL byte in an error's text would stop every later completion of the whole
// client, and a panic's value may hold one too.
type guard struct {
	river.MiddlewareDefaults
	worked func(kind, outcome string, took time.Duration)
}

// The outcomes of jobs. What a run came to is in the rows; here it only ended, or did not.
const (
	Completed   = "completed"
	Failed      = "failed"
	Panicked    = "panicked"
	Cancelled   = "cancelled"   // it asked not to be run again
	Snoozed     = "snoozed"     // it asked to be run later
	Interrupted = "interrupted" // by a shutdown, a person, or its time being up
)

func outcome(ctx context.Context, err error) string {
	var cancelled *river.JobCancelError
	var snoozed *river.JobSnoozeError
	switch {
	case err == nil:
		return Completed
	case errors.As(err, &cancelled):
		return Cancelled
	case errors.As(err, &snoozed):
		return Snoozed
	case ctx.Err() != nil:
		return Interrupted
	}
	return Failed
}

// Work runs the job and cleans what comes out of it.
func (g *guard) Work(ctx context.Context, job *rivertype.JobRow, doInner func(context.Context) error) (err error) {
	began := time.Now()
	defer func() {
		came := outcome(ctx, err)
		if v := recover(); v != nil {
			came, err = Panicked, fmt.Errorf("panic: %v", v)
		}
		if err != nil {
			err = cleaned{err}
		}
		if g.worked != nil {
			g.worked(job.Kind, came, time.Since(began))
		}
	}()
	return doInner(ctx)
}
