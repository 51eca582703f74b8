package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"berth/db"
	"berth/internal/defaults"
	"berth/internal/telemetry"
	"berth/internal/terminal"
	"berth/lifecycle"
)

// actor is who changed something, in the events of what a person changes here.
const actor = "cli"

// app is what a command works with.
type app struct {
	*cli
	lookupEnv      func(string) (string, bool)
	stdout, stderr io.Writer
	tracing        *telemetry.Telemetry // of the command, nil where it is not traced
}

// log is the logger of a command. What stands here is its level where none was asked for.
func (a *app) log(level string) *slog.Logger {
	return newLogger(a.stderr, cmp.Or(a.LogLevel, level), a.lookupEnv)
}

// say tells a person how things go, in one line.
func (a *app) say(format string, args ...any) {
	fmt.Fprintln(a.stderr, terminal.Clean(fmt.Sprintf(format, args...)))
}

// url names the database.
func (a *app) url() (string, error) {
	if a.DatabaseURL == "" {
		return "", &usageError{"database: none is named: set DATABASE_URL or give --database-url (only dev and config check work without one)"}
	}
	return a.DatabaseURL, nil
}

// open connects to the database that was named.
func (a *app) open(ctx context.Context) (*pgxpool.Pool, error) {
	url, err := a.url()
	if err != nil {
		return nil, err
	}
	return db.Open(ctx, url, db.PoolOptions{Brief: true, Tracer: a.tracing.Statements()})
}

// admin is a database and the calls of an admin on it.
type admin struct {
	*lifecycle.Client
	pool *pgxpool.Pool
}

// admin opens the database for an admin's calls, if its schema is the one that this program knows. The caller closes the pool.
func (a *app) admin(ctx context.Context) (*admin, error) {
	client, err := lifecycle.NewClient(actor, a.log("warn"))
	if err != nil {
		return nil, err
	}
	pool, err := a.open(ctx)
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

// changing is reading for what changes something: first it makes the configured provisioners known, where the environment names
// them, so that they can be chosen before any worker has started.
func (a *app) changing(ctx context.Context, f func(*admin) error) error {
	known, err := a.configured(setFlags{}).lookIfSet()
	if err != nil {
		return err
	}
	return a.reading(ctx, func(ad *admin) error {
		if err := ad.register(ctx, known); err != nil {
			return err
		}
		return f(ad)
	})
}

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
