package dbstatic

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"berth/internal/defaults"
	"berth/provisioner/static"
)

// A wish is what one caller asks for: so many slots, 0 for none, or nil for those that it has and no more.
type wish struct {
	resource, fence uuid.UUID
	slots           *int
	readyOn         string
}

// Callers that ask the same pool at one time are sent to the database together, in the order in which they came. A pool's lock
// is held for a commit, so one by one they would wait for each other, and for each other's commits.
type (
	// lines are the callers by pool.
	lines struct {
		mu     sync.Mutex
		byPool map[static.Pool]*line
	}
	// A line is those who ask one pool and are not sent yet. Somebody sends it on as long as it is there.
	line struct{ calls []*call }
	call struct {
		ctx  context.Context //nolint:containedctx // who gives up is not sent
		wish wish
		done chan struct{}
		got  static.Place
		err  error
	}
)

// ask has a wish sent and returns what came of it.
func (s *Store) ask(ctx context.Context, pool static.Pool, w wish) (static.Place, error) {
	if err := ctx.Err(); err != nil {
		return static.Place{}, err
	}
	c := &call{ctx: ctx, wish: w, done: make(chan struct{})}
	s.lines.mu.Lock()
	l := s.lines.byPool[pool]
	if l == nil {
		if s.lines.byPool == nil {
			s.lines.byPool = map[static.Pool]*line{}
		}
		l = &line{}
		s.lines.byPool[pool] = l
		go s.send(pool, l)
	}
	l.calls = append(l.calls, c)
	s.lines.mu.Unlock()
	select {
	case <-c.done:
		return c.got, c.err
	case <-ctx.Done():
		return static.Place{}, ctx.Err()
	}
}

// send sends whoever stands in a line until nobody does.
func (s *Store) send(pool static.Pool, l *line) {
	for {
		calls := s.next(pool, l)
		if len(calls) == 0 {
			return
		}
		s.group(pool, calls)
		for _, c := range calls {
			close(c.done)
		}
	}
}

// next takes those off the line who are sent together: each resource once, for of two callers only one has the lease. It ends
// the line when nobody is left.
func (s *Store) next(pool static.Pool, l *line) (calls []*call) {
	s.lines.mu.Lock()
	defer s.lines.mu.Unlock()
	var later []*call
	in := map[uuid.UUID]bool{}
	for _, c := range l.calls {
		switch {
		case c.ctx.Err() != nil: // gone
		case in[c.wish.resource] || len(calls) == defaults.TakeGroup:
			later = append(later, c)
		default:
			in[c.wish.resource] = true
			calls = append(calls, c)
		}
	}
	l.calls = later
	if len(calls) == 0 {
		delete(s.lines.byPool, pool)
	}
	return calls
}

// group sends calls together. If the database refuses them together, each is sent alone: one bad call fails no other.
func (s *Store) group(pool static.Pool, calls []*call) {
	err := s.transmit(pool, calls)
	var refused *pgconn.PgError
	for _, c := range calls {
		switch {
		case err == nil:
		case len(calls) > 1 && errors.As(err, &refused) && !raced(err):
			c.err = s.transmit(pool, []*call{c})
		default:
			c.err = err
		}
	}
}

// transmit is one transaction for all calls. It belongs to none of them, so none of them can cut it off.
func (s *Store) transmit(pool static.Pool, calls []*call) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), defaults.CallTimeout, fmt.Errorf("no answer within %s", defaults.CallTimeout))
	defer cancel()
	n := len(calls)
	resources, fences, slots, readyOn := make([]uuid.UUID, n), make([]uuid.UUID, n), make([]*int, n), make([]string, n)
	for i, c := range calls {
		resources[i], fences[i], slots[i], readyOn[i] = c.wish.resource, c.wish.fence, c.wish.slots, c.wish.readyOn
	}
	var places []place
	err := again(ctx, func() error {
		rows, err := s.pool.Query(ctx, `
			SELECT lost, host, url, audience, data_dir, slots, wanted, failed_pings, unhealthy, largest, served
			FROM berth.static_take($1, $2, $3, $4, $5, $6)`, pool.Name, pool.Pack, resources, fences, slots, readyOn)
		if err != nil {
			return err
		}
		places, err = pgx.CollectRows(rows, scanPlace)
		return err
	})
	if err != nil {
		return err
	}
	if len(places) != n {
		return fmt.Errorf("asked for %d resources and got %d answers", n, len(places))
	}
	for i, c := range calls {
		c.got = places[i].Place
		if places[i].lost {
			c.got, c.err = static.Place{}, lost(c.wish.resource)
		}
	}
	if calls[0].err != nil && len(places[0].Served) > 0 {
		s.passOn(calls, places[0].Served)
	}
	return nil
}

// passOn gives those who were served to the first caller that gets an answer. If none does, the next look finds them.
func (s *Store) passOn(calls []*call, served []uuid.UUID) {
	for _, c := range calls {
		if c.err == nil {
			c.got.Served = served
			return
		}
	}
}

// lost is the error of a run that no longer has the lease of its resource. The engine knows it by its code.
func lost(id uuid.UUID) error {
	return &pgconn.PgError{Severity: "ERROR", Code: "BR001", Message: fmt.Sprintf("the lease on %s is lost", id)}
}

type place struct {
	static.Place
	lost bool
}

func scanPlace(row pgx.CollectableRow) (place, error) {
	var (
		p                       place
		key, url, audience, dir *string
		largest                 *int
	)
	err := row.Scan(&p.lost, &key, &url, &audience, &dir, &p.Slots, &p.Wanted, &p.FailedPings, &p.Unhealthy, &largest, &p.Served)
	p.Key, p.URL, p.Audience, p.DataDir = value(key), value(url), value(audience), value(dir)
	p.NeverFits, p.Largest = largest != nil, value(largest)
	return p, err
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
