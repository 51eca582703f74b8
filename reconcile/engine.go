package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"berth/db/dbsqlc"
	"berth/internal/defaults"
	"berth/jobs"
	"berth/lifecycle"
	"berth/provisioner"
)

// Config is what an engine works with.
type Config struct {
	Pool         *pgxpool.Pool // of a worker: with its lock and idle timeouts
	Lifecycle    *lifecycle.Client
	Provisioners map[string]provisioner.Provisioner // that this process has configured, by name
	Logger       *slog.Logger
	Version      string           // of this program, for people
	Now          func() time.Time // time.Now if nil; decides whether this process may still act
}

// An Engine drives places. It implements jobs.Driver. All methods are safe for concurrent use.
type Engine struct {
	pool      *pgxpool.Pool
	lifecycle *lifecycle.Client
	backends  map[string]*backend
	log       *slog.Logger
	q         *dbsqlc.Queries
	life      *life
	claims    *group[*claiming]
	outcomes  *group[*outcome]
	waiting   chan struct{} // runs that ask again for a place that someone holds
	parked    sync.WaitGroup
	loops     sync.WaitGroup
	stop      context.CancelFunc // of the loops
	serving   context.Context    //nolint:containedctx // of claims and commits, which outlive the loops
	serve     context.CancelFunc
	served    sync.WaitGroup
}

var _ jobs.Driver = (*Engine)(nil)

// New makes an engine that is ready to be started.
func New(c Config) *Engine {
	e := &Engine{
		pool: c.Pool, lifecycle: c.Lifecycle, backends: map[string]*backend{}, log: c.Logger, q: dbsqlc.New(),
		waiting: make(chan struct{}, defaults.HeldAtOnce),
	}
	now := c.Now
	if now == nil {
		now = time.Now
	}
	names := make([]string, 0, len(c.Provisioners))
	for name, p := range c.Provisioners {
		e.backends[name] = newBackend(name, p)
		names = append(names, name)
	}
	e.life = newLife(c.Pool, c.Version, names, c.Logger, now)
	e.claims = newGroup(1, e.claimGroup)
	e.outcomes = newGroup(defaults.Committers, e.commitGroup)
	return e
}

// ID is how this process is known to the others at the moment. It changes when the process was taken for dead.
func (e *Engine) ID() uuid.UUID { return e.life.current() }

// Start registers the process, brings the backends' configuration into force, and starts the heartbeat, the dispatcher and the
// watchers. Call Stop afterwards, whatever it returned.
func (e *Engine) Start(ctx context.Context) error {
	loops, stop := context.WithCancel(context.WithoutCancel(ctx))
	serve, end := context.WithCancel(context.WithoutCancel(ctx))
	e.stop, e.serving, e.serve = stop, serve, end
	if err := e.life.beat(ctx); err != nil {
		return fmt.Errorf("register this worker: %w", err)
	}
	e.claims.start(serve, &e.served)
	e.outcomes.start(serve, &e.served)
	e.served.Go(func() { e.life.run(serve) })
	for _, b := range e.backends {
		if err := e.activate(ctx, b); err != nil {
			return err
		}
	}
	e.loops.Go(func() { e.dispatcher(loops) })
	for _, b := range e.backends {
		if w, ok := b.Provisioner.(provisioner.Watcher); ok {
			e.loops.Go(func() { e.watch(loops, b, w) })
		}
	}
	return nil
}

func (e *Engine) activate(ctx context.Context, b *backend) error {
	if a, ok := b.Provisioner.(provisioner.Activator); ok {
		if err := a.Activate(ctx); err != nil {
			return fmt.Errorf("bring the configuration of provisioner %q into force: %w", b.name, err)
		}
	}
	// What could not be met as things stood may be met now.
	ids, err := e.q.PlaceHopeless(ctx, e.pool, b.name)
	if err != nil {
		return fmt.Errorf("look for resources that were given up at %q: %w", b.name, err)
	}
	return e.Wake(ctx, b.name, ids...)
}

// Stop ends what Start started. The queue's client has to be stopped before: no run is under way then but for outcomes that
// wait to be stored, which get until ctx ends. What is still held then may be taken over at once.
func (e *Engine) Stop(ctx context.Context) error {
	if e.stop == nil {
		return nil
	}
	e.stop()
	e.loops.Wait()
	parked := make(chan struct{})
	go func() { e.parked.Wait(); close(parked) }()
	var err error
	select {
	case <-parked:
	case <-ctx.Done():
		err = errors.New("stop: outcomes could not be stored in time; other workers look anew")
	}
	e.serve()
	<-parked
	e.served.Wait()
	return cmp.Or(err, e.life.end(context.WithoutCancel(ctx)))
}

// Wake has places of a provisioner driven anew, with a generation more unless one is waiting to be claimed.
func (e *Engine) Wake(ctx context.Context, name string, ids ...uuid.UUID) error {
	if len(ids) == 0 {
		return nil
	}
	return pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
		rows, err := e.q.PlaceWake(ctx, tx, &dbsqlc.PlaceWakeParams{Ids: ids, Provisioner: name, Grace: defaults.Grace})
		if err != nil {
			return fmt.Errorf("wake places of %q: %w", name, err)
		}
		wakes := make([]jobs.Wake, len(rows))
		for i, r := range rows {
			wakes[i] = wake(r.ID, r.Provisioner, r.DeploymentID, r.DesiredPhase, r.Settled)
		}
		return e.lifecycle.Jobs().Wake(ctx, tx, wakes)
	})
}

// wake is the job of a place that is driven anew for a reason that is no person's. One that is settled comes behind what a person
// waits for.
func wake(id uuid.UUID, name string, deployment *uuid.UUID, desired string, settled bool) jobs.Wake {
	w := jobs.Wake{Kind: lifecycle.KindFor(desired), ResourceID: id, Provisioner: name, Background: settled}
	if deployment != nil {
		w.DeploymentID = *deployment
	}
	return w
}
