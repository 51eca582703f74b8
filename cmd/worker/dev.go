package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"berth/db"
	"berth/internal/defaults"
	"berth/internal/postgres"
	"berth/lifecycle"
)

type devCommand struct {
	versionFlag
	Once        bool   `name:"once" help:"End when all deployments run: 0, or 1 with the reasons if they do not within ${demo_timeout}."`
	Deployments int    `name:"deployments" placeholder:"N" default:"${demo_size}" help:"How many deployments there are to be. ${demo_size} if not given."`
	DataDir     string `name:"data-dir" placeholder:"DIR" type:"path" help:"Where the private Postgres keeps its data. If not given, $$BERTH_HOME, else a directory of the user's, such as ~/.local/share/berth."`
}

// Validate refuses what would show nothing, or take for ever.
func (c *devCommand) Validate() error {
	if c.Deployments < 1 || c.Deployments > defaults.DemoMost {
		return fmt.Errorf("--deployments: %d is out of range: use 1 to %d", c.Deployments, defaults.DemoMost)
	}
	return nil
}

// program is how this program was called, for commands that a person copies.
func program() string {
	if name := os.Args[0]; filepath.Base(name) == "worker" {
		return name
	}
	return "worker"
}

// Run shows the worker at work: on a private Postgres, with stub runtimes and sample data.
func (c *devCommand) Run(ctx context.Context, a *app) (err error) {
	begun := time.Now()
	finally := func(f func() error) { err = errors.Join(err, f()) }

	place, err := c.database(ctx, a)
	if err != nil {
		return err
	}
	defer finally(place.close)
	pool, err := db.Open(ctx, place.url, db.PoolOptions{Name: "berth dev"})
	if err != nil {
		return err
	}
	defer pool.Close()
	release, err := alone(ctx, pool)
	if err != nil {
		return err
	}
	defer release()
	if err := db.Migrate(ctx, pool); err != nil {
		return place.anew(err)
	}
	runtimes, err := startRuntimes(ctx, pool)
	if err != nil {
		return err
	}
	defer finally(func() error { return closeRuntimes(runtimes) })

	logger := a.log("warn")
	client, err := lifecycle.NewClient("dev", logger)
	if err != nil {
		return err
	}
	ad := &admin{client, pool}
	f := demoSet(runtimes, c.Deployments)
	f.options = c.options()
	w, err := work(ctx, place.url, f, workOptions{maxWorkers: defaults.MaxWorkers, alone: true}, logger)
	if err != nil {
		return err
	}
	defer finally(func() error { return w.stop(context.WithoutCancel(ctx)) })
	a.say("%d stub runtimes and a worker are up after %v", len(runtimes), time.Since(begun).Round(time.Millisecond))

	made, err := ad.demo(ctx, c.Deployments)
	if err != nil {
		return err
	}
	show := newShow(ad, a.stdout, made)
	err = show.untilRunning(ctx, c.Once)
	if err == nil && !c.Once {
		a.say("%s", place.hint)
		err = show.follow(ctx)
	}
	if !c.Once && ctx.Err() != nil {
		a.say("stopping")
		return nil // that is how it is meant to end
	}
	return err
}

// demoDatabase is where the sample data is.
type demoDatabase struct {
	url   string
	dir   string // of a private server's data; empty for a server that was named
	hint  string // how to look at it
	close func() error
}

const demoName = "berth"

// anew says of a schema that cannot be used what can be done if nobody else needs what is there.
func (d demoDatabase) anew(err error) error {
	var schema *db.SchemaError
	if d.dir == "" || !errors.As(err, &schema) {
		return err
	}
	return fmt.Errorf("dev: %w, or remove %s to begin anew", err, d.dir)
}

// database is the one that was named, or one on a private server that outlasts this process.
func (c *devCommand) database(ctx context.Context, a *app) (demoDatabase, error) {
	if a.DatabaseURL != "" {
		if c.DataDir != "" {
			return demoDatabase{}, &usageError{"dev: --data-dir is for a private Postgres, and DATABASE_URL names another: give one of them"}
		}
		return demoDatabase{url: a.DatabaseURL, close: func() error { return nil },
			hint: fmt.Sprintf("Look at it from another terminal with the same DATABASE_URL, or stop it with Ctrl-C:\n  %s deployment list", program())}, nil
	}
	server, err := postgres.Start(ctx, postgres.Options{Dir: c.DataDir, Name: "dev", Durable: true, Logf: a.say})
	if err != nil {
		return demoDatabase{}, fmt.Errorf("private Postgres: %w", err)
	}
	if err := createDatabase(ctx, server.URL("postgres")); err != nil {
		return demoDatabase{}, errors.Join(err, server.Close())
	}
	url := server.URL(demoName)
	return demoDatabase{url: url, dir: filepath.Dir(server.LogPath()), close: server.Close, hint: fmt.Sprintf("Look at it from another terminal, or stop it with Ctrl-C:\n"+
		"  %s deployment list --database-url '%s'\n  psql '%s' -xc 'SELECT * FROM berth.deployment_details'", program(), url, url)}, nil
}

// createDatabase makes the database of the sample data where there is none.
func createDatabase(ctx context.Context, url string) error {
	pool, err := db.Open(ctx, url, db.PoolOptions{MaxConns: 1, Name: "berth dev"})
	if err != nil {
		return err
	}
	defer pool.Close()
	var exists bool
	if err := pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", demoName).Scan(&exists); err != nil {
		return fmt.Errorf("look for the database: %w", err)
	}
	if exists {
		return nil
	}
	if _, err := pool.Exec(ctx, "CREATE DATABASE "+demoName); err != nil {
		return fmt.Errorf("create the database: %w", err)
	}
	return nil
}

// demoLock is the advisory lock that one dev process holds on a database: "berthdev" in ASCII.
const demoLock = 0x6265727468646576

// alone refuses a database on which another dev process works: each would take the other's runtimes out of the pool.
func alone(ctx context.Context, pool *pgxpool.Pool) (release func(), err error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("lock the database: %w", err)
	}
	var got bool
	if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", int64(demoLock)).Scan(&got); err != nil {
		conn.Release()
		return nil, fmt.Errorf("lock the database: %w", err)
	}
	if !got {
		conn.Release()
		return nil, errors.New("dev: another one works on this database: stop it, or give --data-dir or DATABASE_URL to use another")
	}
	return func() { // the session ends with the process, so the lock does too
		_, _ = conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", int64(demoLock))
		conn.Release()
	}, nil
}
