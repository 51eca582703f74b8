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
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"berth/db"
	"berth/internal/postgres"
)

// Environment variables that are read here.
const (
	// EnvURL names a server to use instead of a private one. Its user needs CREATEDB.
	EnvURL = "TEST_DATABASE_URL"
	// EnvLog, when set, makes the private server's doings show on stderr.
	EnvLog = "BERTH_TEST_LOG"
)

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
			c, err = nil, errors.Join(err, c.close())
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
	return c, c.prepare(ctx, c.sweep)
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
			if err := c.prepare(ctx, nil); err != nil {
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
	head, query, hasQuery := strings.Cut(c.url, "?")
	i := strings.Index(head, "://")
	if i < 0 {
		return "", fmt.Errorf("%s has to be a URL, postgres://user@host/database", EnvURL)
	}
	address, _, _ := strings.Cut(head[i+3:], "/")
	url := head[:i+3] + address + "/" + name
	if hasQuery {
		url += "?" + query
	}
	return url, nil
}
