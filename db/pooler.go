package db

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// PoolerError says that what answers does not keep the settings of a session: it is no Postgres but a pooler, which gives each
// transaction whatever session is free.
type PoolerError struct {
	at      string
	setting string
}

// Error returns the text.
func (e *PoolerError) Error() string {
	return fmt.Sprintf("connect to the database at %s: a pooler stands in between and does not keep a session's settings, such as %s: "+
		"workers and migrations need sessions of their own: name the server itself in DATABASE_URL, not the pooler", e.at, e.setting)
}

// protocolViolation is what poolers answer to a setting that they will not pass on. Postgres does not.
const protocolViolation = "08P01"

// refusesSettings explains why the first connection failed: with a *PoolerError if one without these settings does not fail, else
// with nil.
func refusesSettings(ctx context.Context, pool *pgxpool.Pool, settings map[string]string, err error) error {
	var answer *pgconn.PgError
	if !errors.As(err, &answer) || answer.Code != protocolViolation {
		return nil
	}
	config := pool.Config().ConnConfig.Copy()
	setting := ""
	for s := range settings {
		delete(config.RuntimeParams, s)
		setting = max(setting, s)
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil //nolint:nilerr // it is not for the settings that we are not let in
	}
	_ = conn.Close(ctx)
	return &PoolerError{at(pool), setting}
}

// requireSettings returns a *PoolerError unless a session has the settings with which it was begun: some poolers leave them out.
func requireSettings(ctx context.Context, pool *pgxpool.Pool, settings map[string]string) error {
	if len(settings) == 0 {
		return nil
	}
	rows, err := pool.Query(ctx, "SELECT name, setting FROM pg_settings ORDER BY name DESC", pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return err
	}
	var name, has string
	dropped := ""
	_, err = pgx.ForEachRow(rows, []any{&name, &has}, func() error {
		if want, ours := settings[name]; ours && has != want && dropped == "" {
			dropped = name
		}
		return nil
	})
	if err != nil {
		return err
	}
	if dropped != "" {
		return &PoolerError{at(pool), dropped}
	}
	return nil
}
