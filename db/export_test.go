package db

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/rivermigrate"
)

// MigrateTo brings an older schema to a version of ours, as a program did that knew no later one.
func MigrateTo(ctx context.Context, pool *pgxpool.Pool, version int64) error {
	return locked(ctx, pool, func(m *migrator) error {
		if _, err := m.pool.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+Schema); err != nil {
			return err
		}
		if _, err := m.river.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
			return err
		}
		_, err := m.goose.UpTo(ctx, version)
		return err
	})
}

// FigureStatements are those of Measure, with arguments.
var FigureStatements = map[string]struct {
	SQL  string
	Args []any
}{
	"queue ages": {SQL: queueAges}, "unsettled": {unsettled, []any{10}}, "waiting": {waiting, []any{10}}, "slots": {SQL: slots},
}
