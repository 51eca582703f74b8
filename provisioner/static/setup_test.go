package static_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"berth/db/dbstatic"
	"berth/db/dbtest"
	"berth/provisioner"
	"berth/provisioner/static"
)

// world is a database with pools in it, and the rows that the engine would write.
type world struct {
	t     testing.TB
	db    *dbtest.DB
	store *dbstatic.Store
}

func newWorld(t testing.TB, pools ...string) *world {
	t.Helper()
	d := dbtest.New(t)
	w := &world{t: t, db: d, store: dbstatic.New(d.Pool)}
	for _, p := range pools {
		w.exec(`INSERT INTO berth.provisioners (name, type, supports, timeout) VALUES ($1, 'static', '{runtime}', '5 minutes')`, p)
	}
	return w
}

func (w *world) exec(query string, args ...any) {
	w.t.Helper()
	_, err := w.db.Pool.Exec(context.Background(), query, args...)
	require.NoError(w.t, err)
}

// claim does what the engine does before it calls: the resource is listed at the pool, under a new fence.
func (w *world) claim(pool string, r *provisioner.Resource) {
	r.Fence = w.fence(pool, r.ID)
}

func (w *world) fence(pool string, id uuid.UUID) uuid.UUID {
	f := uuid.New()
	_, err := w.db.Pool.Exec(context.Background(), `
		INSERT INTO berth.provisioner_resources (id, provisioner, type, desired_phase, args, fence, leased_by, leased_until)
		VALUES ($1, $2, 'runtime', 'absent', '{}', $3, $3, now() + interval '1 hour')
		ON CONFLICT (id, provisioner) DO UPDATE SET fence = EXCLUDED.fence`, id, pool, f)
	if err != nil {
		panic(err) // callers are goroutines of their own, which may not fail a test
	}
	return f
}

// open makes a provisioner as a process would, and closes it when the test ends.
func (w *world) open(name string, spec map[string]any) *static.Static {
	w.t.Helper()
	return w.openVia(dbstatic.New(w.db.Pool), nil, name, spec)
}

func (w *world) openVia(store static.Store, via http.RoundTripper, name string, spec map[string]any) *static.Static {
	w.t.Helper()
	return w.openTimed(store, via, name, spec, 300*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond)
}

func (w *world) openTimed(store static.Store, via http.RoundTripper, name string, spec map[string]any, ping, assign, probe time.Duration) *static.Static {
	w.t.Helper()
	p, err := static.FactoryVia(store, via, ping, assign, probe)(name, provisioner.Encode(spec), provisioner.Options{})
	require.NoError(w.t, err)
	s := p.(*static.Static)
	w.t.Cleanup(func() { require.NoError(w.t, s.Close()) })
	return s
}

// runtime makes a spec's entry.
func runtime(host string, slots int) map[string]any {
	return map[string]any{"host": host, "slots": slots, "data_dir": "/mnt/data"}
}

func args(slots int) json.RawMessage {
	return provisioner.Encode(provisioner.RuntimeArgs{Slots: slots, Environment: "prod"})
}

// a stub is a runtime on loopback that answers as it is told.
type stub struct {
	url    string
	close  func()
	pings  atomic.Int64
	mu     sync.Mutex
	answer func(http.ResponseWriter, *http.Request)
}

func newStub(t testing.TB) *stub {
	t.Helper()
	s := &stub{}
	s.set(status(http.StatusOK))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.pings.Add(1)
		s.mu.Lock()
		answer := s.answer
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	s.close = func() { server.CloseClientConnections(); server.Close() }
	t.Cleanup(server.CloseClientConnections)
	s.url = server.URL
	return s
}

func (s *stub) set(answer func(http.ResponseWriter, *http.Request)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func status(code int) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func spec(runtimes ...map[string]any) map[string]any { return map[string]any{"runtimes": runtimes} }

func resource(slots int) *provisioner.Resource {
	return &provisioner.Resource{ID: uuid.New(), Type: provisioner.Runtime, Args: args(slots)}
}

func config(t testing.TB, r *provisioner.Resource) provisioner.RuntimeConfig {
	t.Helper()
	c, err := provisioner.Decode[provisioner.RuntimeConfig](r.Config)
	require.NoError(t, err)
	return c
}

// hang answers nothing until the client gives up.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// used returns the slots used by host, and checks them against what is held.
func (w *world) used(pool string) map[string]int {
	w.t.Helper()
	rows, err := w.db.Pool.Query(context.Background(), `
		SELECT o.url, o.used, coalesce(sum(s.slots), 0)::int FROM berth.static_runtimes o
		LEFT JOIN berth.static_slots s ON s.provisioner = o.provisioner AND s.host = o.host
		WHERE o.provisioner = $1 GROUP BY o.url, o.used`, pool)
	require.NoError(w.t, err)
	defer rows.Close()
	used := map[string]int{}
	for rows.Next() {
		var url string
		var n, sum int
		require.NoError(w.t, rows.Scan(&url, &n, &sum))
		require.Equal(w.t, sum, n, "used of %s is not the sum of what is held", url)
		used[url] = n
	}
	require.NoError(w.t, rows.Err())
	return used
}

// eventually polls until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}
