package health

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"berth/db"
	"berth/db/dbtest"
	"berth/internal/defaults"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// patience is how long a test waits for what is certain to come.
const patience = time.Minute

// engine is one that is as it is told.
type engine struct {
	dead     atomic.Bool
	breakers map[string]bool
}

func (e *engine) Alive() bool               { return !e.dead.Load() }
func (e *engine) LeasesLost() uint64        { return 3 }
func (e *engine) TakeOvers() uint64         { return 5 }
func (e *engine) Breakers() map[string]bool { return e.breakers }

// queue is a client of the queue that runs until it is closed.
type queue chan struct{}

func (q queue) Stopped() <-chan struct{} { return q }

// testBundle is a server that answers for a worker.
type testBundle struct {
	*Server
	t      *testing.T
	db     *dbtest.DB
	pool   *pgxpool.Pool
	engine *engine
	queue  queue
	clock  atomic.Pointer[func() time.Time]
	url    string
}

func setup(t *testing.T, d *dbtest.DB) *testBundle {
	t.Helper()
	b := &testBundle{
		t: t, db: d, engine: &engine{breakers: map[string]bool{"a": true, "b": false}}, queue: make(queue),
		pool: d.Open(t, db.PoolOptions{MaxConns: defaults.EnginePool, Worker: true, Name: "berth worker"}),
	}
	now := time.Now
	b.clock.Store(&now)
	b.Server = New("v1", func() time.Time { return (*b.clock.Load())() }, slog.New(slog.DiscardHandler))
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b.Serve(l)
	b.url = "http://" + l.Addr().String()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, b.Close(ctx))
	})
	return b
}

func (b *testBundle) started() *testBundle {
	b.Started(Worker{Pool: b.pool, Engine: b.engine, Queue: b.queue})
	return b
}

// forget makes the next request ask anew.
func (b *testBundle) forget() {
	b.ready.mu.Lock()
	b.ready.at = time.Time{}
	b.ready.mu.Unlock()
	b.metrics.fleet.figures.mu.Lock()
	b.metrics.fleet.figures.at = time.Time{}
	b.metrics.fleet.figures.mu.Unlock()
}

// ask returns an answer.
func (b *testBundle) ask(method, path string) (status int, body string, header http.Header) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, nil)
	require.NoError(b.t, err)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	a, err := client.Do(r)
	require.NoError(b.t, err)
	text, err := io.ReadAll(a.Body)
	require.NoError(b.t, err)
	require.NoError(b.t, a.Body.Close())
	return a.StatusCode, string(text), a.Header
}

func (b *testBundle) get(path string) string {
	b.t.Helper()
	status, body, _ := b.ask(http.MethodGet, path)
	require.Equal(b.t, http.StatusOK, status, body)
	return body
}

// failing returns the reasons of the checks that fail, by their names.
func (b *testBundle) failing() map[string]string {
	b.t.Helper()
	status, body, header := b.ask(http.MethodGet, "/readyz")
	require.Equal(b.t, "application/json", header.Get("Content-Type"))
	var r Readiness
	require.NoError(b.t, json.Unmarshal([]byte(body), &r), body)
	require.Equal(b.t, status == http.StatusOK, r.Ready)
	require.Equal(b.t, status == http.StatusServiceUnavailable, !r.Ready)
	failed := map[string]string{}
	for _, f := range r.Failed {
		failed[f.Check] = f.Reason
	}
	require.Equal(b.t, r.Ready, len(failed) == 0)
	require.Equal(b.t, "ok\n", b.get("/livez"), "whatever else is the matter")
	return failed
}

func (b *testBundle) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.db.Pool.Exec(b.t.Context(), sql, args...)
	require.NoError(b.t, err)
}
