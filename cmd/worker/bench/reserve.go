package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"berth/db"
	"berth/db/dbstatic"
	"berth/internal/defaults"
	"berth/provisioner/static"
)

const takesEach = 8000 // reservations for each second of a slice

// Reservations measures how fast clients reserve on 10 hosts, against how fast pgbench with as many clients updates one of ten
// rows (spread) or one row (pack) of the same server. A reservation is a new resource, listed before, that is given slots.
// The clients are callers in one process, as the engine's runs are; beside that, what connections do that each call the database's
// function for themselves.
func Reservations(ctx context.Context, url string, s Sizes, out io.Writer) error {
	r, err := newReserving(ctx, url, s.Clients)
	if err != nil {
		return err
	}
	defer r.close()
	for _, m := range []struct {
		name   string
		pool   static.Pool
		script string
	}{
		{"spread", static.Pool{Name: "spread"}, "\\set r random(1, 10)\nUPDATE bench_rows SET n = n + 1 WHERE id = :r\n"},
		{"pack", static.Pool{Name: "pack", Pack: true}, "UPDATE bench_rows SET n = n + 1 WHERE id = 1\n"},
	} {
		var together, alone []float64
		for i := range s.Pairs {
			rows, err := r.pgbench(ctx, m.script, s.Slice)
			if err != nil {
				return err
			}
			group, err := r.reserve(ctx, m.pool, takesEach*s.Slice, r.store)
			if err != nil {
				return err
			}
			single, err := r.reserve(ctx, m.pool, takesEach*s.Slice/4, r.alone)
			if err != nil {
				return err
			}
			together, alone = append(together, group/rows), append(alone, single/rows)
			fmt.Fprintf(out, "reserve  %s pair %d: pgbench %6.0f/s  reservations %6.0f/s  ratio %.2f  (each on a connection of its own %6.0f/s, %.2f)\n",
				m.name, i+1, rows, group, group/rows, single, single/rows)
		}
		slices.Sort(together)
		slices.Sort(alone)
		fmt.Fprintf(out, "reserve  %s: ratio of reservations to updates, median of %d: %.2f (%.2f to %.2f); each on a connection of its own: %.2f\n",
			m.name, s.Pairs, together[len(together)/2], together[0], together[len(together)-1], alone[len(alone)/2])
	}
	return r.deadlocks(ctx)
}

// reserving is a database with two pools of ten hosts.
type reserving struct {
	url     string
	clients int
	program string
	engine  *pgxpool.Pool // as large as a worker's
	many    *pgxpool.Pool // a connection for each client
}

func newReserving(ctx context.Context, url string, clients int) (r *reserving, err error) {
	r = &reserving{url: url, clients: clients}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if r.engine, err = db.Open(ctx, url, db.PoolOptions{MaxConns: defaults.EnginePool, Worker: true}); err != nil {
		return r, err
	}
	if r.many, err = db.Open(ctx, url, db.PoolOptions{MaxConns: int32(clients)}); err != nil { //nolint:gosec // a few
		return r, err
	}
	if err := connectAll(ctx, r.many, clients); err != nil {
		return r, err
	}
	if err := db.Migrate(ctx, r.engine); err != nil {
		return r, err
	}
	if r.program, err = pgbenchOf(ctx, r.engine); err != nil {
		return r, err
	}
	_, err = r.engine.Exec(ctx, `
		CREATE TABLE bench_rows (id int PRIMARY KEY, n int NOT NULL) WITH (fillfactor = 20);
		INSERT INTO bench_rows SELECT i, 0 FROM generate_series(1, 10) i;
		INSERT INTO berth.provisioners (name, type, supports, timeout) VALUES ('spread', 'static', '{runtime}', '5 minutes'), ('pack', 'static', '{runtime}', '5 minutes')`,
		pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return r, fmt.Errorf("make the yardstick's table: %w", err)
	}
	return r, nil
}

// connectAll opens all connections of a pool, so that none is opened while something is measured.
func connectAll(ctx context.Context, pool *pgxpool.Pool, n int) error {
	for range n {
		c, err := pool.Acquire(ctx)
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		defer c.Release()
	}
	return nil
}

func (r *reserving) close() {
	for _, p := range []*pgxpool.Pool{r.engine, r.many} {
		if p != nil {
			p.Close()
		}
	}
}

// pgbenchOf finds the program of the same installation as the server, or else the one on PATH.
func pgbenchOf(ctx context.Context, pool *pgxpool.Pool) (string, error) {
	var dir string
	if err := pool.QueryRow(ctx, `SELECT setting FROM pg_config WHERE name = 'BINDIR'`).Scan(&dir); err == nil {
		if program, err := exec.LookPath(filepath.Join(dir, "pgbench")); err == nil {
			return program, nil
		}
	}
	program, err := exec.LookPath("pgbench")
	if err != nil {
		return "", errors.New("pgbench is not installed: it comes with the server's programs (Debian, Ubuntu: apt-get install postgresql)")
	}
	return program, nil
}

var tps = regexp.MustCompile(`(?m)^tps = ([0-9.]+)`)

// pgbench returns how many transactions a second it counts. A busy machine may need all of the time to connect, and then gets more.
func (r *reserving) pgbench(ctx context.Context, script string, seconds int) (rate float64, err error) {
	for try := 0; try < 4 && rate == 0 && err == nil; try++ {
		rate, err = r.pgbenchFor(ctx, script, seconds<<try)
	}
	if rate == 0 && err == nil {
		err = errors.New("pgbench had no time for a transaction: the machine is too busy to measure on")
	}
	return rate, err
}

// pgbenchFor returns 0 if the time was too short to count any.
func (r *reserving) pgbenchFor(ctx context.Context, script string, seconds int) (float64, error) {
	if _, err := r.engine.Exec(ctx, `VACUUM bench_rows`); err != nil {
		return 0, fmt.Errorf("vacuum: %w", err)
	}
	c := exec.CommandContext(ctx, r.program, "-n", "-M", "prepared", "-c", strconv.Itoa(r.clients), "-j", "2", "-T", strconv.Itoa(seconds), "-f", "/dev/stdin", r.url) //nolint:gosec // the server's own program
	stdin, err := c.StdinPipe()
	if err != nil {
		return 0, fmt.Errorf("pgbench: %w", err)
	}
	go func() {
		_, _ = io.WriteString(stdin, script)
		_ = stdin.Close()
	}()
	answer, err := c.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("pgbench: %w: %s", err, answer)
	}
	if bytes.Contains(answer, []byte("transactions actually processed: 0\n")) {
		return 0, nil
	}
	found := tps.FindSubmatch(answer)
	if found == nil {
		return 0, fmt.Errorf("pgbench says no rate: %s", answer)
	}
	rate, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		return 0, fmt.Errorf("pgbench: %w", err)
	}
	return rate, nil
}

// A taker reserves a slot for a resource.
type taker func(ctx context.Context, pool static.Pool, resource, fence uuid.UUID) error

// store returns a taker as the backend's: callers of one process, on the connections of one process.
func (r *reserving) store() taker {
	store := dbstatic.New(r.engine)
	return func(ctx context.Context, pool static.Pool, resource, fence uuid.UUID) error {
		p, err := store.Take(ctx, pool, static.Take{Resource: resource, Fence: fence, Slots: 1})
		if err == nil && p.Slots != 1 {
			err = errors.New("there was no room")
		}
		return err
	}
}

// alone returns a taker that calls the function on a connection of its own.
func (r *reserving) alone() taker {
	return func(ctx context.Context, pool static.Pool, resource, fence uuid.UUID) error {
		var slots int
		err := r.many.QueryRow(ctx, `SELECT slots FROM berth.static_take($1, $2, ARRAY[$3::uuid], ARRAY[$4::uuid], '{1}', '{NULL}')`,
			pool.Name, pool.Pack, resource, fence).Scan(&slots)
		if err == nil && slots != 1 {
			err = errors.New("there was no room")
		}
		return err
	}
}

// reserve has n resources take a slot each, by all clients, and returns how many a second did.
func (r *reserving) reserve(ctx context.Context, pool static.Pool, n int, how func() taker) (float64, error) {
	fence, ids, err := r.prepare(ctx, pool, n)
	if err != nil {
		return 0, err
	}
	take := how()
	var next atomic.Int64
	began := time.Now()
	g, gc := errgroup.WithContext(ctx)
	for range r.clients {
		g.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err := take(gc, pool, ids[i], fence); err != nil {
					return fmt.Errorf("reserve: %w", err)
				}
			}
		})
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	return float64(n) / time.Since(began).Seconds(), nil
}

// prepare empties a pool and lists n resources at it.
func (r *reserving) prepare(ctx context.Context, pool static.Pool, n int) (fence uuid.UUID, ids []uuid.UUID, err error) {
	fence = uuid.New()
	ids = make([]uuid.UUID, n)
	for i := range ids {
		ids[i] = uuid.New()
	}
	hosts := make([]static.Host, hosts)
	for i := range hosts {
		url := fmt.Sprintf("http://host-%d.example.com:8081", i)
		hosts[i] = static.Host{Key: url, URL: url, Audience: url, Slots: n/len(hosts) + r.clients}
	}
	for _, clean := range []string{`TRUNCATE berth.static_slots`, `DELETE FROM berth.provisioner_resources`, `DELETE FROM berth.static_runtimes`,
		`VACUUM ANALYZE berth.provisioner_resources`, `VACUUM berth.static_runtimes`} {
		if _, err := r.engine.Exec(ctx, clean); err != nil {
			return fence, nil, fmt.Errorf("empty the pool: %w", err)
		}
	}
	if _, err := dbstatic.New(r.engine).Declare(ctx, pool, hosts); err != nil {
		return fence, nil, fmt.Errorf("declare hosts: %w", err)
	}
	_, err = r.engine.Exec(ctx, `
		INSERT INTO berth.provisioner_resources (id, provisioner, type, desired_phase, args, fence, leased_by, leased_until)
		SELECT i, $2, 'runtime', 'absent', '{}', $3::uuid, $3::uuid, now() + interval '1 hour' FROM unnest($1::uuid[]) i`, ids, pool.Name, fence)
	if err == nil {
		_, err = r.engine.Exec(ctx, `CHECKPOINT`)
	}
	if err != nil {
		return fence, nil, fmt.Errorf("list resources: %w", err)
	}
	return fence, ids, nil
}

// deadlocks fails if the server met one.
func (r *reserving) deadlocks(ctx context.Context) error {
	var n int
	if err := r.engine.QueryRow(ctx, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&n); err != nil {
		return fmt.Errorf("look for deadlocks: %w", err)
	}
	if n > 0 {
		return fmt.Errorf("the server met %d deadlocks", n)
	}
	return nil
}
