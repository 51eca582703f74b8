package dbstatic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"berth/internal/defaults"
	"berth/provisioner/static"
)

var _ static.Store = (*Store)(nil)

// Store counts slots in the tables static_runtimes and static_slots. Safe for concurrent use.
type Store struct{ pool *pgxpool.Pool }

// New returns a store on a pool of connections, which stays the caller's.
func New(pool *pgxpool.Pool) *Store { return &Store{pool: pool} }

const placeColumns = "host, url, audience, data_dir, slots, wanted, failed_pings, unhealthy, largest, served"

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
	return s.place(ctx, `SELECT `+placeColumns+` FROM berth.static_take($1, $2, $3, $4, $5, $6)`,
		pool.Name, t.Resource, t.Fence, t.Slots, pool.Pack, t.ReadyOn)
}

// Release gives back what a resource holds, or with keep only its place in the queue. Repeat-safe.
func (s *Store) Release(ctx context.Context, pool static.Pool, resource, fence uuid.UUID, keep bool) (static.Place, error) {
	return s.place(ctx, `SELECT `+placeColumns+` FROM berth.static_release($1, $2, $3, $4, $5)`, pool.Name, resource, fence, keep, pool.Pack)
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

func (s *Store) place(ctx context.Context, query string, args ...any) (p static.Place, err error) {
	err = again(ctx, func() error {
		p, err = scanPlace(s.pool.QueryRow(ctx, query, args...))
		return err
	})
	return p, err
}

func scanPlace(row pgx.Row) (static.Place, error) {
	var (
		p                        static.Place
		key, url, audience, dir  *string
		slots, wanted, failed, l *int
		unhealthy                *bool
	)
	if err := row.Scan(&key, &url, &audience, &dir, &slots, &wanted, &failed, &unhealthy, &l, &p.Served); err != nil {
		return static.Place{}, err
	}
	p.Host = static.Host{Key: value(key), URL: value(url), Audience: value(audience), DataDir: value(dir), Slots: value(slots)}
	p.Wanted, p.FailedPings, p.Unhealthy = value(wanted), value(failed), value(unhealthy)
	p.NeverFits, p.Largest = l != nil, value(l)
	return p, nil
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// again repeats a call that lost a race for a lock or for the last room of a host. What it still returns after a few tries is
// for the caller to tell from a failure.
func again(ctx context.Context, try func() error) error {
	const tries, pause = 4, 10 * time.Millisecond
	for i := 0; ; i++ {
		err := try()
		if err == nil || !raced(err) || i == tries-1 {
			return err
		}
		select {
		case <-time.After(pause<<i + rand.N(pause<<i)):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

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

// ErrNoHost says that a pool has no such host.
var ErrNoHost = errors.New("the pool has no such runtime")
