package dbstatic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"berth/internal/defaults"
	"berth/provisioner/static"
)

var _ static.Store = (*Store)(nil)

// ErrNoHost says that a pool has no such host.
var ErrNoHost = errors.New("the pool has no such runtime")

// Store counts slots in the tables static_runtimes and static_slots. Safe for concurrent use.
type Store struct {
	pool  *pgxpool.Pool
	lines lines
}

// New returns a store on a pool of connections, which stays the caller's.
func New(pool *pgxpool.Pool) *Store { return &Store{pool: pool} }

// Declare writes the hosts of a pool's configuration. Repeat-safe.
func (s *Store) Declare(ctx context.Context, pool static.Pool, hosts []static.Host) ([]uuid.UUID, error) {
	raw, err := json.Marshal(hosts)
	if err != nil {
		return nil, err
	}
	return s.served(ctx, `SELECT berth.static_declare($1, $2, $3)`, pool.Name, raw, pool.Pack)
}

// Take takes slots for a resource, or makes it wait for them. Repeat-safe.
func (s *Store) Take(ctx context.Context, pool static.Pool, t static.Take) (static.Place, error) {
	return s.ask(ctx, pool, wish{resource: t.Resource, fence: t.Fence, slots: &t.Slots, readyOn: t.ReadyOn})
}

// Release gives back what a resource holds, or with keep only its place in the queue. Repeat-safe.
func (s *Store) Release(ctx context.Context, pool static.Pool, resource, fence uuid.UUID, keep bool) (static.Place, error) {
	w := wish{resource: resource, fence: fence}
	if !keep {
		w.slots = new(int)
	}
	return s.ask(ctx, pool, w)
}

// Report tells how a ping of a host went. Told twice, a failure counts twice.
func (s *Store) Report(ctx context.Context, pool static.Pool, host string, answered bool) ([]uuid.UUID, error) {
	return s.served(ctx, `SELECT berth.static_report($1, $2, $3, $4, $5)`, pool.Name, host, answered, defaults.PingFailures, pool.Pack)
}

// Assign gives free room to those who wait. Repeat-safe.
func (s *Store) Assign(ctx context.Context, pool static.Pool) ([]uuid.UUID, error) {
	return s.served(ctx, `SELECT berth.static_assign($1, $2)`, pool.Name, pool.Pack)
}

func (s *Store) served(ctx context.Context, query string, args ...any) (ids []uuid.UUID, err error) {
	err = again(ctx, func() error { return s.pool.QueryRow(ctx, query, args...).Scan(&ids) })
	return ids, err
}

// again repeats a call that lost a race for a lock. What it still returns after a few tries is for the caller to tell from a
// failure.
func again(ctx context.Context, try func() error) error {
	for i := 0; ; i++ {
		err := try()
		if err == nil || !raced(err) || i == defaults.TakeTries-1 {
			return err
		}
		select {
		case <-time.After(defaults.TakePause<<i + rand.N(defaults.TakePause<<i)):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// raced reports whether an error says that somebody else was in the way for a moment. That a host has no room for what was
// just planned there is such a case: only somebody at work by hand can have taken it meanwhile.
func raced(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	switch pg.Code {
	case "40P01", "40001", "55P03":
		return true
	}
	return pg.ConstraintName == "static_runtimes_has_room"
}
