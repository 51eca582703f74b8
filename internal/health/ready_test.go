package health

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/db"
	"berth/db/dbtest"
	"berth/internal/defaults"
)

func TestReady(t *testing.T) {
	t.Parallel()
	frozen := func(off time.Duration) func(*testBundle) {
		return func(b *testBundle) {
			at := time.Now().Add(off)
			now := func() time.Time { return at }
			b.clock.Store(&now)
		}
	}
	for name, tc := range map[string]struct {
		reason string
		harm   func(*testBundle)
		want   map[string]string // parts of the reasons
	}{
		"all is well": {"nothing is broken", func(*testBundle) {}, map[string]string{}},
		"a newer schema": {"someone migrated ahead of this worker", func(b *testBundle) {
			b.exec(`INSERT INTO berth.goose_db_version (version_id, is_applied) VALUES (99999, true)`)
		}, map[string]string{"schema": "newer than this worker"}},
		"an older schema":      {"a migration was taken back", func(b *testBundle) { b.exec(`DELETE FROM berth.goose_db_version WHERE version_id > 1`) }, map[string]string{"schema": "worker migrate up"}},
		"a newer queue":        {"River's schema counts too", func(b *testBundle) { b.exec(`INSERT INTO berth.river_migration (line, version) VALUES ('main', 999)`) }, map[string]string{"schema": "queue 999"}},
		"no schema":            {"somebody dropped it", func(b *testBundle) { b.exec(`DROP SCHEMA berth CASCADE`) }, map[string]string{"schema": "is not there"}},
		"a clock that stopped": {"leases are judged by it", frozen(-defaults.ClockSkew - time.Second), map[string]string{"clock": "behind"}},
		"a clock ahead":        {"leases are judged by it", frozen(time.Hour), map[string]string{"clock": "ahead of"}},
		"a queue that stopped": {"it takes no jobs", func(b *testBundle) { close(b.queue) }, map[string]string{"queue": "stopped"}},
		"no heartbeat":         {"others may take over", func(b *testBundle) { b.engine.dead.Store(true) }, map[string]string{"heartbeat": "too old"}},
		"a pool that is taken": {"whatever it does, nothing gets a connection", func(b *testBundle) {
			for range defaults.EnginePool {
				c, err := b.pool.Acquire(b.t.Context())
				require.NoError(b.t, err)
				b.t.Cleanup(c.Release)
			}
		}, map[string]string{"database": "no answer in time"}},
		"all at once": {"each is told", func(b *testBundle) {
			frozen(time.Hour)(b)
			close(b.queue)
			b.engine.dead.Store(true)
			b.exec(`INSERT INTO berth.goose_db_version (version_id, is_applied) VALUES (99999, true)`)
		}, map[string]string{"clock": "ahead", "queue": "stopped", "heartbeat": "too old", "schema": "newer"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, dbtest.New(t)).started()
			tc.harm(b)
			got := b.failing()
			for check, reason := range tc.want {
				require.Contains(t, got[check], reason, tc.reason)
				got[check] = reason
			}
			require.Empty(t, cmp.Diff(tc.want, got), tc.reason)
		})
	}
}

// It is not ready before it has started, nor from the moment that it is about to stop, whatever was said a moment ago.
func TestReadyOnlyWhileItWorks(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.New(t))
	require.Equal(t, map[string]string{"worker": "it has not started yet"}, b.failing())
	require.Contains(t, b.get("/metrics"), "go_goroutines")
	b.started()
	require.Empty(t, b.failing())
	b.Stopping()
	require.Equal(t, map[string]string{"worker": "it is stopping"}, b.failing())
}

// The database is stopped, and started again.
func TestDatabaseStopped(t *testing.T) {
	t.Parallel()
	d := dbtest.Private(t, dbtest.PrivateOptions{})
	b := setup(t, d).started()
	b.ready.holdFor, b.metrics.fleet.figures.holdFor = 0, 0
	require.Empty(t, b.failing())
	require.Contains(t, b.get("/metrics"), "berth_scrape_error 0")

	require.NoError(t, syscall.Kill(d.Server.Pid(), syscall.SIGINT))
	require.Eventually(t, func() bool { return b.failing()["database"] != "" && d.Server.Pid() == 0 }, patience, 10*time.Millisecond)
	_, body, _ := b.ask(http.MethodGet, "/readyz")
	for _, secret := range []string{"postgres", d.URL, "host=", "socket", "PGSQL"} {
		require.NotContains(t, body, secret)
	}
	metrics := b.get("/metrics")
	require.Contains(t, metrics, "berth_scrape_error 1")
	require.Contains(t, metrics, "berth_take_overs_total 5")
	require.Contains(t, metrics, "go_goroutines")
	require.NotContains(t, metrics, "berth_queue_age_seconds", "what is not known is not shown")

	require.NoError(t, d.Server.Restart(t.Context(), false))
	require.Eventually(t, func() bool { return len(b.failing()) == 0 }, patience, 10*time.Millisecond)
	require.Contains(t, b.get("/metrics"), "berth_scrape_error 0")
}

// asked counts the statements of a pool.
type asked struct{ n atomic.Int64 }

// TraceQueryStart is told of each statement.
func (a *asked) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	a.n.Add(1)
	return ctx
}

// TraceQueryEnd is told of its end.
func (*asked) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// Many who ask at once are one for the database, and so are many who ask while it does not answer.
func TestStorm(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	count := &asked{}
	b := setup(t, d)
	b.pool = d.Open(t, db.PoolOptions{MaxConns: 2, Worker: true, Tracer: count})
	b.started()
	b.ready.holdFor, b.metrics.fleet.figures.holdFor = time.Hour, time.Hour // a machine may be slow; see forget
	storm := func() int64 {
		b.forget()
		before := count.n.Load()
		var all sync.WaitGroup
		for _, path := range []string{"/readyz", "/metrics"} {
			for range 50 {
				all.Go(func() { _, _, _ = b.ask(http.MethodGet, path) })
			}
		}
		all.Wait()
		return count.n.Load() - before
	}
	b.forget()
	b.failing()
	b.get("/metrics")
	one := count.n.Load()
	require.Positive(t, one)
	require.LessOrEqual(t, storm(), one)

	// Someone holds a table, as a migration would: nobody waits longer than a moment, and nobody asks behind the other.
	tx, err := d.Pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `LOCK berth.static_runtimes, berth.goose_db_version`)
	require.NoError(t, err)
	began := time.Now()
	require.LessOrEqual(t, storm(), one)
	require.Less(t, time.Since(began), patience, "a hundred that wait for each other would take longer")
	require.Contains(t, b.get("/metrics"), "berth_scrape_error 1")
	require.NoError(t, tx.Rollback(t.Context()))
	b.forget()
	require.Contains(t, b.get("/metrics"), "berth_scrape_error 0")
}

// There is nothing to write, and nothing else to read.
func TestMethods(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.New(t)).started()
	for _, path := range []string{"/livez", "/readyz", "/metrics"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
			status, _, header := b.ask(method, path)
			require.Equal(t, http.StatusMethodNotAllowed, status)
			require.Equal(t, "GET, HEAD", header.Get("Allow"))
		}
		status, body, _ := b.ask(http.MethodHead, path)
		require.Equal(t, http.StatusOK, status)
		require.Empty(t, body)
	}
	for _, path := range []string{"/", "/debug/pprof/", "/livez/"} {
		status, _, _ := b.ask(http.MethodGet, path)
		require.Equal(t, http.StatusNotFound, status, path)
	}
	status, _, _ := b.ask(http.MethodGet, "/livez?"+strings.Repeat("x", 64<<10))
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, status)
}
