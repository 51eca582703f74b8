package reconcile

import (
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
)

// errNotAlive ends the runs of a process that could not say in time that it lives: others may have taken over.
var errNotAlive = errors.New("this worker could not reach the database in time and may have been taken for dead")

// life is whether this process may act. One heartbeat statement, on a connection of its own so that no queue for the pool
// delays it.
type life struct {
	config  *pgx.ConnConfig
	version string
	names   []string
	digests []string // of the configurations of names, in their order
	log     *slog.Logger
	now     func() time.Time
	q       *dbsqlc.Queries
	conn    *pgx.Conn
	seenAt  time.Time

	breakers func() []string // the names of those that are open

	preferred string // the default provisioner that is configured here, if it is to be announced

	mu       sync.Mutex
	id       uuid.UUID
	until    time.Time       // may act until then
	takeOver time.Time       // may take over from others after that
	failed   bool            // the last beat did
	term     context.Context //nolint:containedctx // ends when this life of the process does
	lapse    context.CancelCauseFunc
	timer    *time.Timer
}

func newLife(pool *pgxpool.Pool, version string, names []string, log *slog.Logger, now func() time.Time) *life {
	return &life{
		config: pool.Config().ConnConfig.Copy(), version: version, names: names, digests: []string{}, log: log, now: now, q: dbsqlc.New(),
		breakers: func() []string { return []string{} }, id: uuid.New(), failed: true,
	}
}

func (l *life) current() uuid.UUID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id
}

// acting returns the context of everything that is begun now, which ends when the process may not act any more, and its id. ok
// is false if that is so already.
func (l *life) acting() (term context.Context, id uuid.UUID, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.term == nil || l.term.Err() != nil || !l.now().Before(l.until) {
		return nil, uuid.Nil, false
	}
	return l.term, l.id, true
}

// mayTakeOver reports whether others' leases may be judged by their heartbeats. After a loss of connection everybody gets one
// full alive time to come back, and so they do after this process stood still: the others may have stood still with it.
func (l *life) mayTakeOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	return !l.failed && now.Before(l.until) && now.After(l.takeOver)
}

// run beats until ctx ends.
func (l *life) run(ctx context.Context) {
	beat := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, defaults.Heartbeat)
		defer cancel()
		return l.beat(ctx)
	}
	every(ctx, defaults.Heartbeat, beat, func(err error) {
		if err != nil {
			l.log.Warn("heartbeat missed", slog.Any("error", err))
		}
	})
}

// beat says that the process lives. Only one goroutine calls it at a time.
func (l *life) beat(ctx context.Context) error {
	began := l.now()
	err := l.say(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failed = true
		return err
	}
	if l.failed || began.Sub(l.until) > 0 {
		l.takeOver = l.now().Add(defaults.Alive)
	}
	l.failed = false
	// Less than what others go by: runs end before anybody else begins.
	l.until = began.Add(defaults.Alive - defaults.AliveMargin)
	left := l.until.Sub(l.now())
	if l.term == nil || l.term.Err() != nil {
		l.term, l.lapse = context.WithCancelCause(context.WithoutCancel(ctx))
		lapse := l.lapse
		l.timer = time.AfterFunc(left, func() { lapse(errNotAlive) })
		return nil
	}
	l.timer.Reset(left)
	return nil
}

func (l *life) say(ctx context.Context) error {
	if err := l.connect(ctx); err != nil {
		return err
	}
	id := l.current()
	n, err := l.q.WorkerBeat(ctx, l.conn, &dbsqlc.WorkerBeatParams{
		ID: id, Version: l.version, Provisioners: l.names, Digests: l.digests, DefaultProvisioner: l.defaultName(), OpenBreakers: l.breakers(), Alive: defaults.Alive,
	})
	if err != nil {
		return fmt.Errorf("beat: %w", err)
	}
	if n == 0 { // a dead id stays dead; what was begun under it ends, and a new one begins
		l.mu.Lock()
		l.id = uuid.New()
		if l.lapse != nil {
			l.lapse(errNotAlive)
		}
		l.mu.Unlock()
		l.log.Warn("this worker was taken for dead and goes on under a new id")
		return l.say(ctx)
	}
	if l.now().Sub(l.seenAt) >= defaults.Seen {
		if err := l.q.ProvisionerSeen(ctx, l.conn, &dbsqlc.ProvisionerSeenParams{Names: l.names, Older: defaults.Seen / 2}); err != nil {
			l.log.Warn("provisioners could not be marked as seen", slog.Any("error", err)) // it lives all the same
			return nil
		}
		l.seenAt = l.now()
	}
	return nil
}

func (l *life) defaultName() *string {
	if l.preferred == "" {
		return nil
	}
	return &l.preferred
}

// end gives the id up: what it still holds may be taken over at once. If the database can not be told, that is so a little later.
func (l *life) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, defaults.ConnectTimeout)
	defer cancel()
	l.mu.Lock()
	began := l.lapse != nil
	if began {
		l.timer.Stop()
		l.lapse(errNotAlive)
	}
	l.mu.Unlock()
	if began {
		err := l.sayEnd(ctx)
		if err != nil { // the connection may have been cut since the last beat
			err = l.sayEnd(ctx)
		}
		if err != nil {
			l.log.Warn("the end of this worker could not be told; what it held is taken over a little later", slog.Any("error", err))
		}
	}
	if l.conn != nil {
		_ = l.conn.Close(ctx)
	}
}

func (l *life) sayEnd(ctx context.Context) error {
	if err := l.connect(ctx); err != nil {
		return err
	}
	return l.q.WorkerEnd(ctx, l.conn, l.current())
}

// connect makes sure of a connection, as far as that can be known.
func (l *life) connect(ctx context.Context) (err error) {
	if l.conn != nil && !l.conn.IsClosed() {
		return nil
	}
	if l.conn, err = pgx.ConnectConfig(ctx, l.config); err != nil {
		l.conn = nil
		return fmt.Errorf("connect: %w", err)
	}
	return nil
}
