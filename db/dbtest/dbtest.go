package dbtest

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"berth/db"
	"berth/internal/postgres"
)

// DB is a database of one test. It is dropped when the test ends, whoever is still connected.
type DB struct {
	Pool *pgxpool.Pool // ten connections, with no settings of a worker
	URL  string
	// Server is the test's own one, nil but for Private.
	Server *postgres.Server
}

// New makes a migrated database.
func New(t testing.TB) *DB {
	t.Helper()
	c, err := common()
	if err != nil {
		t.Fatal(err)
	}
	return c.database(t, true)
}

// NewEmpty makes a database with nothing in it.
func NewEmpty(t testing.TB) *DB {
	t.Helper()
	c, err := common()
	if err != nil {
		t.Fatal(err)
	}
	return c.database(t, false)
}

// PrivateOptions says how a server of a test's own is run.
type PrivateOptions struct {
	Settings map[string]string // of the server, as max_connections
	Durable  bool              // fsync on
}

// Private makes a migrated database on a server of the test's own, which it may restart, kill and fill up. It takes a second.
func Private(t testing.TB, o PrivateOptions) *DB {
	t.Helper()
	server, err := postgres.Start(t.Context(), postgres.Options{Temporary: true, Durable: o.Durable, Settings: o.Settings, Logf: logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("close the test's server: %v", err)
		}
	})
	const name = "berth"
	d := &DB{URL: server.URL(name), Server: server}
	admin, err := db.Open(t.Context(), server.URL("postgres"), db.PoolOptions{MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if _, err := admin.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	d.Pool = d.Open(t, db.PoolOptions{MaxConns: 10, Name: "test"})
	if err := db.Migrate(t.Context(), d.Pool); err != nil {
		t.Fatal(err)
	}
	return d
}

// database makes a database that lasts as long as the test.
func (c *cluster) database(t testing.TB, migrated bool) *DB {
	t.Helper()
	name, err := c.create(t.Context(), migrated)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, errors.New("the database could not be dropped in a minute"))
		defer cancel()
		if err := c.drop(ctx, name); err != nil {
			t.Error(err)
		}
	})
	d := &DB{}
	if d.URL, err = c.urlOf(name); err != nil {
		t.Fatal(err)
	}
	d.Pool = d.Open(t, db.PoolOptions{MaxConns: 10, Name: "test"})
	return d
}

// Open opens one more pool on the database and closes it when the test ends. What was started with it has to be stopped by
// then; a connection that was not given back fails the test.
func (d *DB) Open(t testing.TB, o db.PoolOptions) *pgxpool.Pool {
	t.Helper()
	pool, err := db.Open(t.Context(), d.URL, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closed := make(chan struct{})
		go func() {
			pool.Close()
			close(closed)
		}()
		select {
		case <-closed:
		case <-time.After(10 * time.Second):
			t.Errorf("%d connections of a pool were never given back", pool.Stat().AcquiredConns())
		}
	})
	return pool
}

// Dir is an empty directory for a cluster of a test's own: short enough for a socket, and open to the user whom a server runs
// as when the tests are root's, which t.TempDir is not.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bt") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
