package static_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/db"
	"berth/db/dbstatic"
	"berth/internal/defaults"
	"berth/provisioner/static"
)

// order is what one worker process is told to do: take slots for these resources, all at once.
type order struct {
	URL   string
	Pool  static.Pool
	Fence uuid.UUID
	IDs   []uuid.UUID
	Sizes []int
}

const orderEnv = "BERTH_TEST_STATIC_ORDER"

// takeInProcess is a worker process: it says that it is there, waits for its word, takes, and ends.
func takeInProcess(raw string) int {
	if err := takeAsOrdered(raw); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func takeAsOrdered(raw string) error {
	var o order
	if err := json.Unmarshal([]byte(raw), &o); err != nil {
		return err
	}
	ctx := context.Background()
	conns, err := db.Open(ctx, o.URL, db.PoolOptions{MaxConns: defaults.EnginePool, Worker: true})
	if err != nil {
		return err
	}
	defer conns.Close()
	fmt.Println("ready")
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		return err
	}
	store := dbstatic.New(conns)
	errs := make([]error, len(o.IDs))
	var all sync.WaitGroup
	for i, id := range o.IDs {
		all.Go(func() {
			var p static.Place
			if p, errs[i] = store.Take(ctx, o.Pool, static.Take{Resource: id, Fence: o.Fence, Slots: o.Sizes[i]}); errs[i] == nil && p.Slots != o.Sizes[i] {
				errs[i] = fmt.Errorf("%d of %d slots", p.Slots, o.Sizes[i])
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// byProcesses has n processes take slots at one moment.
func (w *world) byProcesses(n int, pool static.Pool, sizes []int) {
	w.t.Helper()
	fence := uuid.New()
	orders := make([]order, n)
	for i, size := range sizes {
		id := uuid.New()
		w.exec(`INSERT INTO berth.provisioner_resources (id, provisioner, type, desired_phase, args, fence, leased_by, leased_until)
			VALUES ($1, $2, 'runtime', 'absent', '{}', $3, $3, now() + interval '1 hour')`, id, pool.Name, fence)
		o := &orders[i%n]
		*o = order{URL: w.db.URL, Pool: pool, Fence: fence, IDs: append(o.IDs, id), Sizes: append(o.Sizes, size)}
	}
	self, err := os.Executable()
	require.NoError(w.t, err)
	var begin []func() error
	var processes []*exec.Cmd
	for _, o := range orders {
		raw, err := json.Marshal(o)
		require.NoError(w.t, err)
		c := exec.CommandContext(w.t.Context(), self)
		c.Env = append(os.Environ(), orderEnv+"="+string(raw))
		c.Stderr = os.Stderr
		in, err := c.StdinPipe()
		require.NoError(w.t, err)
		out, err := c.StdoutPipe()
		require.NoError(w.t, err)
		require.NoError(w.t, c.Start())
		_, err = out.Read(make([]byte, 16)) // it is there
		require.NoError(w.t, err)
		begin = append(begin, func() error { _, err := in.Write([]byte("go\n")); return err })
		processes = append(processes, c)
	}
	for _, b := range begin {
		require.NoError(w.t, b())
	}
	for _, c := range processes {
		require.NoError(w.t, c.Wait())
	}
}

// hosts22 is a pool of 22 equal hosts.
func (w *world) hosts22(pool static.Pool) {
	w.t.Helper()
	hosts := make([]static.Host, 22)
	for i := range hosts {
		url := fmt.Sprintf("http://rt-%02d.example.test:8081", i+1)
		hosts[i] = static.Host{Key: url, URL: url, Audience: url, DataDir: "/mnt/data", Slots: 40}
	}
	_, err := w.store.Declare(context.Background(), pool, hosts)
	require.NoError(w.t, err)
}

// hold lists a resource that holds slots of a certain host.
func (w *world) hold(pool static.Pool, host string, slots int) {
	w.t.Helper()
	id := uuid.New()
	w.fence(pool.Name, id)
	w.exec(`INSERT INTO berth.static_slots (resource_id, provisioner, host, slots, wanted) VALUES ($1, $2, $3, $4, $4)`, id, pool.Name, host, slots)
}

func ones(n int) []int {
	sizes := make([]int, n)
	for i := range sizes {
		sizes[i] = 1
	}
	return sizes
}

// TestNobodyPicksWhatWasEmptiest: many takes in one second by four processes spread over the pool as if they came one by one.
func TestNobodyPicksWhatWasEmptiest(t *testing.T) {
	t.Parallel()
	pool := static.Pool{Name: "pool"}

	t.Run("Equal", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, "pool")
		w.hosts22(pool)
		w.byProcesses(4, pool, ones(220))
		for host, n := range w.used("pool") {
			require.Equal(t, 10, n, host)
		}
		w.noDeadlock()
	})

	t.Run("By share", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, "pool")
		w.hosts22(pool)
		w.hold(pool, "http://rt-01.example.test:8081", 30) // and the others are as empty as the new one
		w.byProcesses(4, pool, ones(220))
		for host, n := range w.used("pool") {
			if host == "http://rt-01.example.test:8081" {
				require.Equal(t, 30, n)
				continue
			}
			require.InDelta(t, 220./21, n, 1, host)
		}
	})

	t.Run("A new host", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, "pool")
		w.hosts22(pool)
		for i := 1; i < 22; i++ { // the last one is new
			w.hold(pool, fmt.Sprintf("http://rt-%02d.example.test:8081", i), 5)
		}
		stop := w.guard(`SELECT count(*) FROM berth.static_runtimes n WHERE n.host = 'http://rt-22.example.test:8081'
			AND n.used > 1 + (SELECT min(o.used) FROM berth.static_runtimes o)`)
		w.byProcesses(4, pool, ones(220))
		stop()
		for host, n := range w.used("pool") {
			require.InDelta(t, (21*5+220)/22., n, 1, host)
		}
	})
}

// TestPackFillsOneBeforeTheNext, at every instant.
func TestPackFillsOneBeforeTheNext(t *testing.T) {
	t.Parallel()
	pool := static.Pool{Name: "pool", Pack: true}

	t.Run("Ones", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, "pool")
		w.hosts22(pool)
		stop := w.guard(`SELECT greatest(count(*) - 1, 0) FROM berth.static_runtimes WHERE used > 0 AND used < slots`)
		w.byProcesses(4, pool, ones(220))
		stop()
		for host, n := range w.used("pool") {
			want := 0
			switch i, _ := strconv.Atoi(strings.TrimPrefix(host[:len("http://rt-00")], "http://rt-")); {
			case i <= 5:
				want = 40
			case i == 6:
				want = 20
			}
			require.Equal(t, want, n, host)
		}
		w.noDeadlock()
	})

	t.Run("Sizes mixed", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, "pool")
		w.hosts22(pool)
		var sizes []int
		total := 0
		for i := range 220 {
			sizes = append(sizes, []int{1, 2, 8}[i%3])
			total += sizes[i]
		}
		// A host that is not full has no room for an 8, so at least 33 of 40 are used on every host but the last ones.
		stop := w.guard(`SELECT count(*) FROM berth.static_runtimes WHERE used > slots`)
		w.byProcesses(4, pool, sizes)
		stop()
		begun, sum := 0, 0
		for _, n := range w.used("pool") {
			sum += n
			if n > 0 {
				begun++
			}
		}
		require.Equal(t, total, sum)
		require.LessOrEqual(t, begun, (total+32)/33+1, "hosts were begun with room left elsewhere")
		w.noDeadlock()
	})
}

// guard looks all the time until stop is called, and fails if the count is ever more than zero.
func (w *world) guard(count string) (stop func()) {
	w.t.Helper()
	conn, err := pgx.Connect(context.Background(), w.db.URL)
	require.NoError(w.t, err)
	end, ended := make(chan struct{}), make(chan struct{})
	looks := 0
	go func() {
		defer close(ended)
		for {
			var n int
			if err := conn.QueryRow(context.Background(), count).Scan(&n); err != nil || n > 0 {
				w.t.Errorf("%d of: %s (%v)", n, count, err)
				return
			}
			looks++
			select {
			case <-end:
				return
			default:
			}
		}
	}()
	halt := sync.OnceFunc(func() {
		close(end)
		<-ended
		_ = conn.Close(context.Background())
	})
	w.t.Cleanup(halt)
	return func() {
		halt()
		require.Positive(w.t, looks)
	}
}

// noDeadlock fails if the server met a deadlock in this database.
func (w *world) noDeadlock() {
	w.t.Helper()
	var n int
	require.NoError(w.t, w.db.Pool.QueryRow(context.Background(), `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&n))
	require.Zero(w.t, n, "deadlocks")
}
