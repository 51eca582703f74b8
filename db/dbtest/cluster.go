package dbtest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"berth/db"
	"berth/internal/postgres"
)

// EnvURL names a server to use instead of a private one. Its user needs CREATEDB.
const EnvURL = "TEST_DATABASE_URL"

// EnvLog makes the private server's doings show on stderr, when set.
const EnvLog = "BERTH_TEST_LOG"

// makingLock is the advisory lock held while databases are swept and the template is made: "bertht" in ASCII.
const makingLock = 0x626572746874

// templatesKept is how many templates of other states of the schema stay: other checkouts may be testing on the same server.
const templatesKept = 16

// cluster is a server for tests and how databases are made on it.
type cluster struct {
	server   *postgres.Server // nil for a given one
	url      string
	admin    *pgxpool.Pool
	template string
	strategy string
	made     atomic.Int64
}

var shared struct {
	sync.Mutex
	cluster *cluster
	err     error
}

// common returns the server that the tests share, started by whoever asks first.
func common() (*cluster, error) {
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster == nil && shared.err == nil {
		shared.cluster, shared.err = openCommon(context.Background())
	}
	return shared.cluster, shared.err
}

// leave ends this process's use of the common server.
func leave() error {
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster == nil {
		return nil
	}
	c := shared.cluster
	shared.cluster, shared.err = nil, errors.New("dbtest was left already")
	return c.close()
}

func openCommon(ctx context.Context) (*cluster, error) {
	if url := os.Getenv(EnvURL); url != "" {
		return open(ctx, nil, url)
	}
	server, err := postgres.Start(ctx, postgres.Options{Name: "test", Logf: logf})
	if err != nil {
		return nil, fmt.Errorf("%w (for tests the variable is %s)", err, EnvURL)
	}
	return open(ctx, server, server.URL("postgres"))
}

func logf(format string, args ...any) {
	if os.Getenv(EnvLog) != "" {
		fmt.Fprintf(os.Stderr, "dbtest: "+format+"\n", args...)
	}
}

// open prepares a server for tests. It closes the server when that does not work.
func open(ctx context.Context, server *postgres.Server, url string) (c *cluster, err error) {
	c = &cluster{server: server, url: url}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	print, err := db.Fingerprint()
	if err != nil {
		return nil, err
	}
	c.template = "berth_template_" + print
	if c.admin, err = db.Open(ctx, url, db.PoolOptions{MaxConns: 8, Name: "dbtest"}); err != nil {
		return nil, err
	}
	var fsync string
	if err := c.admin.QueryRow(ctx, "SHOW fsync").Scan(&fsync); err != nil {
		return nil, fmt.Errorf("ask for fsync: %w", err)
	}
	// Copying files is the fastest by far, unless each has to reach the disk.
	c.strategy = "FILE_COPY"
	if fsync == "on" {
		c.strategy = "WAL_LOG"
	}
	return c, c.prepare(ctx)
}

func (c *cluster) close() error {
	if c.admin != nil {
		c.admin.Close()
	}
	if c.server != nil {
		return c.server.Close()
	}
	return nil
}

// prepare sweeps what killed test processes left and makes the template, one process at a time.
func (c *cluster) prepare(ctx context.Context) error {
	conn, err := c.admin.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("prepare the server for tests: %w", err)
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(makingLock)); err != nil {
		return fmt.Errorf("prepare the server for tests: %w", err)
	}
	defer func() {
		_, _ = conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", int64(makingLock))
	}()
	if err := c.sweep(ctx, conn.Conn()); err != nil {
		return fmt.Errorf("sweep the server for tests: %w", err)
	}
	if err := c.makeTemplate(ctx, conn.Conn()); err != nil {
		return fmt.Errorf("make the template for tests: %w", err)
	}
	return nil
}

// host tells machines apart that use one server; pids mean nothing to each other there.
var host = sync.OnceValue(func() string {
	name, _ := os.Hostname()
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return strconv.FormatUint(uint64(h.Sum32()), 36)
})

var ownForm = regexp.MustCompile(`^berth_t_([0-9a-z]+)_([0-9]+)_[0-9]+$`)

// name is that of the next database.
func (c *cluster) name() string {
	return fmt.Sprintf("berth_t_%s_%d_%d", host(), os.Getpid(), c.made.Add(1))
}

// sweep drops the databases of processes of this machine that are gone, and templates that have long been out of use.
func (c *cluster) sweep(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, `SELECT datname FROM pg_database WHERE datname LIKE 'berth\_t\_%'`)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, n := range names {
		m := ownForm.FindStringSubmatch(n)
		if m == nil || m[1] != host() {
			continue
		}
		// Our own pid too: nothing has been made yet, so it is an earlier process's.
		if pid, err := strconv.Atoi(m[2]); err != nil || pid != os.Getpid() && !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			continue
		}
		if _, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+n+" WITH (FORCE)"); err != nil {
			return err
		}
	}
	rows, err = conn.Query(ctx, `SELECT datname FROM pg_database WHERE datname LIKE 'berth\_template\_%' AND datname <> $1
		ORDER BY oid DESC OFFSET $2`, c.template, templatesKept)
	if err != nil {
		return err
	}
	if names, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return err
	}
	for _, n := range names {
		if err := dropTemplate(ctx, conn, n); err != nil {
			return err
		}
	}
	return nil
}

func dropTemplate(ctx context.Context, conn *pgx.Conn, name string) error {
	if _, err := conn.Exec(ctx, "ALTER DATABASE "+name+" WITH IS_TEMPLATE false"); err != nil {
		return err
	}
	_, err := conn.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
	return err
}

// makeTemplate makes the migrated database that others are copied from, once for each state of the schema.
func (c *cluster) makeTemplate(ctx context.Context, conn *pgx.Conn) error {
	var exists bool
	err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1 AND datistemplate)", c.template).Scan(&exists)
	if err != nil || exists {
		return err
	}
	begun := time.Now()
	// One that is not marked is what a killed process left.
	for _, q := range []string{"DROP DATABASE IF EXISTS " + c.template + " WITH (FORCE)", "CREATE DATABASE " + c.template} {
		if _, err := conn.Exec(ctx, q); err != nil {
			return err
		}
	}
	if err := c.migrate(ctx, c.template); err != nil {
		return err
	}
	if err := c.quiet(ctx, c.template); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "ALTER DATABASE "+c.template+" WITH IS_TEMPLATE true ALLOW_CONNECTIONS false"); err != nil {
		return err
	}
	logf("template %s made in %v", c.template, time.Since(begun).Round(time.Millisecond))
	return nil
}

func (c *cluster) migrate(ctx context.Context, name string) error {
	pool, err := c.pool(ctx, name, db.PoolOptions{MaxConns: 2})
	if err != nil {
		return err
	}
	defer pool.Close()
	return db.Migrate(ctx, pool)
}

// create makes a database, from the template if it is to be migrated.
func (c *cluster) create(ctx context.Context, migrated bool) (name string, err error) {
	name = c.name()
	source := "template1"
	if migrated {
		source = c.template
	}
	for again := false; ; again = true {
		_, err = c.admin.Exec(ctx, "CREATE DATABASE "+name+" TEMPLATE "+source+" STRATEGY "+c.strategy)
		var pg *pgconn.PgError
		if !again && errors.As(err, &pg) && pg.Code == "3D000" { // another checkout's sweep took our template
			if err := c.prepare(ctx); err != nil {
				return "", err
			}
			continue
		}
		if err != nil {
			return "", fmt.Errorf("create a database for the test: %w", err)
		}
		return name, nil
	}
}

// drop removes a database. It waits for our own sessions there to end: DROP DATABASE naps for 100 ms when it meets one.
func (c *cluster) drop(ctx context.Context, name string) error {
	if err := c.quiet(ctx, name); err != nil {
		return err
	}
	if _, err := c.admin.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
		return fmt.Errorf("drop the test's database: %w", err)
	}
	return nil
}

// quiet waits until nobody is connected to a database, but only a moment: FORCE ends those that stay.
func (c *cluster) quiet(ctx context.Context, name string) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 100 {
		var busy bool
		if err := c.admin.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = $1)", name).Scan(&busy); err != nil {
			return fmt.Errorf("look who is connected to %s: %w", name, err)
		}
		if !busy {
			return nil
		}
		<-tick.C
	}
	return nil
}

// pool opens a database of the cluster.
func (c *cluster) pool(ctx context.Context, name string, o db.PoolOptions) (*pgxpool.Pool, error) {
	url, err := c.urlOf(name)
	if err != nil {
		return nil, err
	}
	return db.Open(ctx, url, o)
}

// urlOf is the URL of another database of the cluster.
func (c *cluster) urlOf(name string) (string, error) {
	if c.server != nil {
		return c.server.URL(name), nil
	}
	head, query, _ := strings.Cut(c.url, "?")
	i := strings.Index(head, "://")
	if i < 0 {
		return "", fmt.Errorf("%s has to be a URL, postgres://user@host/database", EnvURL)
	}
	address, _, _ := strings.Cut(head[i+3:], "/")
	return head[:i+3] + address + "/" + name + "?" + query, nil
}
