package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
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
	Digests      map[string]string                  // of their configurations; without one it is of those that announce none
	Default      string                             // the default provisioner that is configured; empty: it is left as it is
	Alone        bool                               // no other process matters: the configurations here act at once
	RolloutRate  float64                            // resources a second that a changed configuration is brought to; 0 is the default
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
	own       chan struct{} // runs that take a connection of their own
	parked    sync.WaitGroup
	loops     sync.WaitGroup
	looping   context.Context //nolint:containedctx // of the dispatcher, the pruner and the watchers
	stop      context.CancelFunc
	serving   context.Context //nolint:containedctx // of claims and commits, which outlive the loops
	serve     context.CancelFunc
	served    sync.WaitGroup

	queues  Queues
	alone   bool
	shouted time.Time // about missing provisioners

	hurryMu sync.Mutex
	hurried []uuid.UUID // the dead whose places were made due
	leftOut []uuid.UUID // and those of them that someone held

	overdueAll            atomic.Int64  // when all deadlines that passed were last looked at, in nanoseconds
	leasesLost, takeOvers atomic.Uint64 // since the start

	callTimeout, dispatchEvery, pruneEvery, lookEvery, silence time.Duration
	rolloutRate                                                float64
}

var _ jobs.Driver = (*Engine)(nil)

// New makes an engine that is ready to be started.
func New(c Config) *Engine {
	e := &Engine{
		hurried: []uuid.UUID{}, leftOut: []uuid.UUID{},
		pool: c.Pool, lifecycle: c.Lifecycle, backends: map[string]*backend{}, log: c.Logger, q: dbsqlc.New(),
		waiting: make(chan struct{}, defaults.HeldAtOnce), own: make(chan struct{}, max(1, int(c.Pool.Config().MaxConns)/2)),
		callTimeout: defaults.CallTimeout, dispatchEvery: defaults.Dispatch,
		pruneEvery: defaults.Prune, lookEvery: defaults.ActingLook, silence: defaults.Silence, alone: c.Alone, rolloutRate: cmp.Or(c.RolloutRate, defaults.RolloutRate),
	}
	now := c.Now
	if now == nil {
		now = time.Now
	}
	e.life = newLife(c.Pool, c.Version, []string{}, c.Logger, now)
	e.life.preferred = c.Default
	for name, p := range c.Provisioners {
		b := newBackend(name, p)
		b.digest = c.Digests[name]
		e.backends[name] = b
		e.life.names, e.life.digests = append(e.life.names, name), append(e.life.digests, b.digest)
	}
	e.life.breakers = e.openBreakers
	e.claims = newGroup(1, e.claimGroup)
	e.outcomes = newGroup(defaults.Committers, e.commitGroup)
	return e
}

// ID is how this process is known to the others at the moment. It changes when the process was taken for dead.
func (e *Engine) ID() uuid.UUID { return e.life.current() }

// Serve has the queues of provisioners worked while the configurations here act. Call it before Start.
func (e *Engine) Serve(q Queues) { e.queues = q }

// Start registers the process, brings the configurations into force that act, and starts the heartbeat, the dispatcher, the
// pruner and the watchers. Call Stop afterwards, whatever it returned.
func (e *Engine) Start(ctx context.Context) error {
	e.looping, e.stop = context.WithCancel(context.WithoutCancel(ctx))
	e.serving, e.serve = context.WithCancel(context.WithoutCancel(ctx))
	// The first one has to connect, and nothing is held yet that could be lost while it waits.
	first, cancel := context.WithTimeout(ctx, defaults.ConnectTimeout)
	defer cancel()
	if err := e.life.beat(first); err != nil {
		return fmt.Errorf("register this worker: %w", err)
	}
	e.claims.start(e.serving, &e.served)
	e.outcomes.start(e.serving, &e.served)
	e.served.Go(func() { e.life.run(e.serving) })
	if err := e.shout(ctx); err != nil {
		return err
	}
	e.lookAll(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e.loops.Go(func() {
		every(e.looping, e.dispatchEvery, func(ctx context.Context) error { return errors.Join(e.shout(ctx), e.Dispatch(ctx)) }, e.warn)
	})
	e.loops.Go(func() { every(e.looping, e.pruneEvery, e.Prune, e.warn) })
	for _, b := range e.backends {
		e.loops.Go(func() {
			every(e.looping, e.lookEvery, func(ctx context.Context) error { return e.look(ctx, b) }, func(err error) { b.complain(e.log, err) })
		})
	}
	return nil
}

// every does something again and again, and tells how it ended each time, until ctx ends. What ends with ctx is no fault.
func every(ctx context.Context, d time.Duration, do func(context.Context) error, tell func(error)) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := do(ctx); ctx.Err() == nil {
				tell(err)
			}
		}
	}
}

// warn logs what went wrong with a look over everything. The next one tries it anew.
func (e *Engine) warn(err error) {
	if err != nil {
		e.log.Warn("a look over everything failed", slog.Any("error", err))
	}
}

// said is an error of a backend whose text may be seen.
type said struct{ error }

// Error returns the text.
func (s said) Error() string { return clean(s.error.Error()) }

// Unwrap returns the error as it was.
func (s said) Unwrap() error { return s.error }

// Stop ends what Start started. The queue's client has to be stopped before: no run is under way then but for outcomes that
// wait to be stored, which get until ctx ends. What is still held then is given back, or may be taken over at once.
func (e *Engine) Stop(ctx context.Context) error {
	if e.stop == nil {
		return nil
	}
	e.stop()
	var errs []error
	if !waitFor(ctx, &e.loops) {
		errs = append(errs, errors.New("stop: a watch of a provisioner does not end"))
	}
	if !waitFor(ctx, &e.parked) {
		errs = append(errs, errors.New("stop: outcomes could not be stored in time; other workers look anew"))
	}
	e.serve()
	e.parked.Wait()
	e.served.Wait()
	e.life.end(context.WithoutCancel(ctx))
	return errors.Join(errs...)
}

// waitFor reports whether the group ended before ctx did.
func waitFor(ctx context.Context, wg *sync.WaitGroup) bool {
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// apart runs a transaction of one run alone. Of all queues together no more do at once than half of the pool has connections, so that
// claims and outcomes, which are made for many at a time, never queue behind them.
func (e *Engine) apart(ctx context.Context, do func(pgx.Tx) error) error {
	select {
	case e.own <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-e.own }()
	return pgx.BeginFunc(ctx, e.pool, do)
}

// Wake has places of a provisioner driven anew, with a generation more unless one is waiting to be claimed. What someone holds is
// woken later, as long as this process lives and has the provisioner.
func (e *Engine) Wake(ctx context.Context, name string, ids ...uuid.UUID) error {
	held, err := e.wakeOnce(ctx, name, ids)
	if b := e.backends[name]; b != nil {
		b.changed.add(held...)
	}
	return err
}

// wakeOnce returns those that someone holds.
func (e *Engine) wakeOnce(ctx context.Context, name string, ids []uuid.UUID) (held []uuid.UUID, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	err = pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
		wakes, err := e.again(ctx, tx, name, ids)
		if err != nil {
			return err
		}
		if held, err = e.q.PlaceUnwoken(ctx, tx, &dbsqlc.PlaceUnwokenParams{Ids: ids, Provisioner: name}); err != nil {
			return fmt.Errorf("look what was not woken: %w", err)
		}
		return e.lifecycle.Jobs().Wake(ctx, tx, wakes)
	})
	return held, err
}

// again gives places of a provisioner that nobody holds a generation more, and returns the jobs that this needs.
func (e *Engine) again(ctx context.Context, tx pgx.Tx, name string, ids []uuid.UUID) ([]jobs.Wake, error) {
	rows, err := e.q.PlaceWake(ctx, tx, &dbsqlc.PlaceWakeParams{Ids: ids, Provisioner: name, Grace: defaults.Grace})
	if err != nil {
		return nil, fmt.Errorf("wake places of %q: %w", name, err)
	}
	wakes := make([]jobs.Wake, len(rows))
	for i, r := range rows {
		wakes[i] = wake(r.ID, r.Provisioner, r.DeploymentID, r.DesiredPhase, r.Background)
	}
	return wakes, nil
}

// wake is the job of a place that is driven anew for a reason that is no person's. One that nobody waits for comes behind what a
// person waits for.
func wake(id uuid.UUID, name string, deployment *uuid.UUID, desired string, background bool) jobs.Wake {
	w := jobs.Wake{Kind: lifecycle.KindFor(desired), ResourceID: id, Provisioner: name, Background: background}
	if deployment != nil {
		w.DeploymentID = *deployment
	}
	return w
}
