package reconcile

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/db/dbtest"
	"berth/internal/defaults"
)

// clock is one that a test sets.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) forward(d time.Duration) { c.ahead.Add(int64(d)) }

func newTestLife(t *testing.T, d *dbtest.DB, names ...string) (*life, *clock) {
	t.Helper()
	c := &clock{}
	l := newLife(d.Pool, "test", append([]string{}, names...), quiet(), c.now)
	t.Cleanup(func() { l.end(context.Background()) })
	return l, c
}

// Whether a process may act, and whether it may judge others, through all that can befall it.
func TestLife(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := dbtest.New(t)
	l, c := newTestLife(t, d)
	_, _, ok := l.acting()
	require.False(t, ok, "it has not said that it lives yet")
	require.False(t, l.mayTakeOver())

	require.NoError(t, l.beat(ctx))
	term, id, ok := l.acting()
	require.True(t, ok)
	require.Equal(t, l.current(), id)
	require.False(t, l.mayTakeOver(), "it has just connected: others may be about to")
	for range 4 {
		c.forward(defaults.Heartbeat)
		require.NoError(t, l.beat(ctx))
	}
	require.True(t, l.mayTakeOver())

	// The database is away for one beat.
	gone, cancel := context.WithCancel(ctx)
	cancel()
	require.Error(t, l.beat(gone))
	require.False(t, l.mayTakeOver())
	_, _, ok = l.acting()
	require.True(t, ok, "others do not know yet")
	require.NoError(t, l.beat(ctx))
	require.False(t, l.mayTakeOver(), "everybody gets one full alive time to come back")
	require.NoError(t, term.Err(), "what is under way goes on")
	for range 4 {
		c.forward(defaults.Heartbeat)
		require.NoError(t, l.beat(ctx))
	}
	require.True(t, l.mayTakeOver())

	// The process stands still, and perhaps the machine with all the others.
	c.forward(defaults.Alive - time.Second)
	_, _, ok = l.acting()
	require.False(t, ok, "a second before anybody may take it for dead")
	require.False(t, l.mayTakeOver(), "not even before it has beaten again")
	require.NoError(t, l.beat(ctx))
	require.False(t, l.mayTakeOver())
	_, same, ok := l.acting()
	require.True(t, ok)
	require.Equal(t, id, same, "nobody took it for dead")
}

// An id that was taken for dead stays dead: what was begun under it ends, and the process goes on under a new one.
func TestTakenForDead(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := dbtest.New(t)
	l, _ := newTestLife(t, d)
	require.NoError(t, l.beat(ctx))
	term, id, _ := l.acting()
	_, err := d.Pool.Exec(ctx, `UPDATE berth.workers SET alive_until = clock_timestamp()`)
	require.NoError(t, err)
	require.NoError(t, l.beat(ctx))
	require.ErrorIs(t, context.Cause(term), errNotAlive)
	_, now, ok := l.acting()
	require.True(t, ok)
	require.NotEqual(t, id, now)
	var living uuid.UUID
	require.NoError(t, d.Pool.QueryRow(ctx, `SELECT id FROM berth.workers WHERE alive_until > clock_timestamp()`).Scan(&living))
	require.Equal(t, now, living)
}

// Runs end by themselves when the process can not say in time that it lives.
func TestTermEnds(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	l, c := newTestLife(t, dbtest.New(t))
	require.NoError(t, l.beat(ctx))
	term, _, _ := l.acting()
	// Most of the time passes between the question and its answer.
	l.mu.Lock()
	l.lapse(nil)
	l.mu.Unlock()
	slow := l.now
	began := true
	l.now = func() time.Time {
		if began {
			began = false
			return slow().Add(-(defaults.Alive - 1100*time.Millisecond))
		}
		return slow()
	}
	require.NoError(t, l.beat(ctx))
	l.now = c.now
	require.Error(t, term.Err())
	next, _, _ := l.acting()
	if next != nil { // 100 ms are left
		<-next.Done()
		require.ErrorIs(t, context.Cause(next), errNotAlive)
	}
	_, _, ok := l.acting()
	require.False(t, ok)
}

// A provisioner's row that somebody holds is no reason to be taken for dead.
func TestBeatWhileProvisionersAreLocked(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := dbtest.New(t)
	_, err := d.Pool.Exec(ctx, `INSERT INTO berth.provisioners (name, type, supports, timeout, seen_at)
		SELECT n, 'static', '{runtime}', '1 minute', now() - interval '1 hour' FROM unnest('{a,b}'::text[]) n`)
	require.NoError(t, err)
	l, c := newTestLife(t, d, "a", "b")
	seen := func() (n int) {
		require.NoError(t, d.Pool.QueryRow(ctx, `SELECT count(*) FROM berth.provisioners WHERE seen_at > now() - interval '1 minute'`).Scan(&n))
		return n
	}
	tx, err := d.Pool.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `SELECT FROM berth.provisioners WHERE name = 'a' FOR UPDATE`)
	require.NoError(t, err)
	require.NoError(t, l.beat(ctx))
	_, _, ok := l.acting()
	require.True(t, ok)
	require.Equal(t, 1, seen(), "the other one is marked")
	require.NoError(t, tx.Rollback(ctx))
	c.forward(defaults.Seen)
	require.NoError(t, l.beat(ctx))
	require.Equal(t, 2, seen())
}

// A process that ends may be taken over from at once.
func TestEnd(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := dbtest.New(t)
	l, _ := newTestLife(t, d)
	dead := func() (n int) {
		require.NoError(t, d.Pool.QueryRow(ctx, `SELECT count(*) FROM berth.workers WHERE alive_until <= clock_timestamp()`).Scan(&n))
		return n
	}
	l.end(ctx) // what never began
	require.NoError(t, l.beat(ctx))
	term, _, _ := l.acting()
	l.end(ctx)
	require.ErrorIs(t, context.Cause(term), errNotAlive)
	require.Equal(t, 1, dead())
	l.end(ctx) // again
	require.Equal(t, 1, dead())
}

// Its connection was cut since it last said that it lives, or was cut then: its end is told all the same.
func TestEndAfterACut(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, cut := range map[string]func(*testing.T, *life){
		"between beats": func(t *testing.T, l *life) { require.NoError(t, l.conn.PgConn().Conn().Close()) },
		"by a beat":     func(t *testing.T, l *life) { require.NoError(t, l.conn.Close(ctx)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := dbtest.New(t)
			l, _ := newTestLife(t, d)
			require.NoError(t, l.beat(ctx))
			cut(t, l)
			l.end(ctx)
			var dead int
			require.NoError(t, d.Pool.QueryRow(ctx, `SELECT count(*) FROM berth.workers WHERE alive_until <= clock_timestamp()`).Scan(&dead))
			require.Equal(t, 1, dead)
		})
	}
}

// Rows of dead workers go once no lease names them: an unknown worker counts as alive.
func TestWorkersAreForgotten(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	o := newOne(t, options{})
	old, holding, fresh := uuid.New(), uuid.New(), uuid.New()
	for _, w := range []uuid.UUID{old, holding} {
		o.exec(`INSERT INTO berth.workers (id, version, provisioners, alive_until) VALUES ($1, '', '{}', clock_timestamp() - interval '1 hour')`, w)
	}
	o.die(fresh)
	o.claimFor(holding, o.id)
	require.NoError(t, o.Dispatch(ctx))
	rows, err := o.Pool.Query(ctx, `SELECT id FROM berth.workers`)
	require.NoError(t, err)
	left, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	require.NoError(t, err)
	require.ElementsMatch(t, []uuid.UUID{holding, fresh, o.ID()}, left)
}
