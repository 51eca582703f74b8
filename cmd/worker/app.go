package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"berth/db"
	"berth/internal/defaults"
	"berth/lifecycle"
)

// actor is who changed something, in the events of what a person changes here.
const actor = "cli"

// app is what a command works with.
type app struct {
	*cli
	stdout, stderr io.Writer
	logger         *slog.Logger
}

func newApp(c *cli, lookupEnv func(string) (string, bool), stdout, stderr io.Writer) *app {
	return &app{cli: c, stdout: stdout, stderr: stderr, logger: newLogger(stderr, c.LogLevel, lookupEnv)}
}

// say tells a person how things go.
func (a *app) say(format string, args ...any) { fmt.Fprintf(a.stderr, format+"\n", args...) }

// open connects to the database that was named.
func (a *app) open(ctx context.Context, o db.PoolOptions) (*pgxpool.Pool, error) {
	if a.DatabaseURL == "" {
		return nil, &usageError{"database: none is named: set DATABASE_URL or give --database-url (only dev and config check work without one)"}
	}
	return db.Open(ctx, a.DatabaseURL, o)
}

// admin is a database and the calls of an admin on it.
type admin struct {
	*lifecycle.Client
	pool *pgxpool.Pool
}

// admin opens the database for an admin's calls, if its schema is the one that this program knows. The caller closes the pool.
func (a *app) admin(ctx context.Context) (*admin, error) {
	client, err := lifecycle.NewClient(actor, a.logger)
	if err != nil {
		return nil, err
	}
	pool, err := a.open(ctx, db.PoolOptions{})
	if err != nil {
		return nil, err
	}
	if err := db.RequireCurrent(ctx, pool); err != nil {
		pool.Close()
		return nil, err
	}
	return &admin{client, pool}, nil
}

// reading runs what changes nothing.
func (a *app) reading(ctx context.Context, f func(*admin) error) error {
	ad, err := a.admin(ctx)
	if err != nil {
		return err
	}
	defer ad.pool.Close()
	return f(ad)
}

// changing runs what changes something.
func (a *app) changing(ctx context.Context, f func(*admin) error) error { return a.reading(ctx, f) }

// tx runs f in a transaction of its own, again where the database let another one go first.
func (ad *admin) tx(ctx context.Context, f func(pgx.Tx) error) error {
	var err error
	for range defaults.TxTries {
		if err = pgx.BeginFunc(ctx, ad.pool, f); !errors.Is(err, lifecycle.ErrRetry) {
			return err
		}
	}
	return err
}
