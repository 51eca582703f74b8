package db

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"berth/internal/defaults"
)

// Schema is where all tables live, River's included.
const Schema = "berth"

// gooseTable keeps which of our migrations were applied.
const gooseTable = Schema + ".goose_db_version"

//go:embed migrations/*.sql
var embedded embed.FS

// migrationLock is the advisory lock that one migrator holds at a time: "berth" in ASCII.
const migrationLock = 0x6265727468

// jobChecks refuse jobs that River could not decode and that would hold up all others of its fetch.
const jobChecks = `
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = 'berth.river_job'::regclass AND conname = 'river_job_args_object') THEN
        ALTER TABLE berth.river_job ADD CONSTRAINT river_job_args_object CHECK (jsonb_typeof(args) = 'object');
    END IF;
    IF NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = 'berth.river_job'::regclass AND conname = 'river_job_metadata_object') THEN
        ALTER TABLE berth.river_job ADD CONSTRAINT river_job_metadata_object CHECK (jsonb_typeof(metadata) = 'object');
    END IF;
END $$`

// NotEmptyError says that there is still something in the tables that MigrateDown would drop.
type NotEmptyError struct {
	Deployments int64
	Resources   int64 // rows of provisioner_resources: things that exist outside, cleanup debts included
}

// Error returns the text.
func (e *NotEmptyError) Error() string {
	return fmt.Sprintf("the schema still holds %d deployments and %d resources, and what these stand for would be left with nobody to remove it: "+
		"delete them first, or give --discard to drop what is known of them", e.Deployments, e.Resources)
}

// Migrate brings the schema to the state that this program knows: River's tables, then ours. It may be repeated and run by
// several processes at once; they take turns. A schema that is newer already is left alone and is a *SchemaError. It uses a few
// connections of its own, configured as the pool's but free to wait for locks. A pooler in between is a *PoolerError.
func Migrate(ctx context.Context, pool *pgxpool.Pool) error {
	return locked(ctx, pool, func(m *migrator) error {
		if m.versions.newer() {
			return &SchemaError{Versions: m.versions}
		}
		// Looked up first: CREATE SCHEMA IF NOT EXISTS needs the right to create one even where it exists.
		var exists bool
		if err := m.pool.QueryRow(ctx, "SELECT to_regnamespace($1) IS NOT NULL", Schema).Scan(&exists); err != nil {
			return fmt.Errorf("look for the schema: %w", err)
		}
		if !exists {
			if _, err := m.pool.Exec(ctx, "CREATE SCHEMA "+Schema); err != nil {
				return fmt.Errorf("create the schema: %w", err)
			}
		}
		if _, err := m.river.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
			return fmt.Errorf("migrate river's tables: %w", err)
		}
		if _, err := m.goose.Up(ctx); err != nil {
			return fmt.Errorf("migrate the schema: %w", err)
		}
		if _, err := m.pool.Exec(ctx, jobChecks); err != nil {
			return fmt.Errorf("constrain river's jobs: %w", err)
		}
		return nil
	})
}

// MigrateDown drops all tables, the jobs included; the empty schema stays. Unless told to discard them it refuses, with a
// *NotEmptyError, while there are deployments or resources. It may be repeated. No worker may run meanwhile.
func MigrateDown(ctx context.Context, pool *pgxpool.Pool, discard bool) error {
	return locked(ctx, pool, func(m *migrator) error {
		if m.versions.newer() {
			return &SchemaError{Versions: m.versions}
		}
		if !discard {
			if err := m.refuse(ctx); err != nil {
				return err
			}
		}
		if m.versions.Schema.Applied > 0 {
			if _, err := m.goose.DownTo(ctx, 0); err != nil {
				return fmt.Errorf("migrate the schema down: %w", err)
			}
		}
		if _, err := m.river.Migrate(ctx, rivermigrate.DirectionDown, &rivermigrate.MigrateOpts{TargetVersion: -1}); err != nil {
			return fmt.Errorf("migrate river's tables down: %w", err)
		}
		if _, err := m.pool.Exec(ctx, "DROP TABLE IF EXISTS "+gooseTable); err != nil {
			return fmt.Errorf("drop the record of migrations: %w", err)
		}
		return nil
	})
}

// migrator holds what one run needs, under the lock.
type migrator struct {
	pool     *pgxpool.Pool
	river    *rivermigrate.Migrator[pgx.Tx]
	goose    *goose.Provider
	versions Versions
}

// locked runs f while no other migrator works on the database.
func locked(ctx context.Context, pool *pgxpool.Pool, f func(*migrator) error) (err error) {
	config := patient(pool, 2)
	own, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("open the database: %w", err)
	}
	defer own.Close()
	if err := check(ctx, own, unhurried); err != nil {
		return err
	}
	// A session of its own holds the lock, so that it ends with the process, however that ends.
	holder, err := pgx.ConnectConfig(ctx, config.ConnConfig.Copy())
	if err != nil {
		return fmt.Errorf("lock the schema: %w", err)
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), defaults.ConnectTimeout)
		defer cancel()
		err = errors.Join(err, holder.Close(closing))
	}()
	if _, err := holder.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(migrationLock)); err != nil {
		return fmt.Errorf("lock the schema: %w", err)
	}
	m := &migrator{pool: own}
	if m.river, err = rivermigrate.New(riverpgxv5.New(own), &rivermigrate.Config{Schema: Schema, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		return fmt.Errorf("river's migrations: %w", err)
	}
	files, err := fs.Sub(embedded, "migrations")
	if err != nil {
		return fmt.Errorf("our migrations: %w", err)
	}
	handle := stdlib.OpenDBFromPool(own)
	defer func() { err = errors.Join(err, handle.Close()) }()
	m.goose, err = goose.NewProvider(goose.DialectPostgres, handle, files, goose.WithTableName(gooseTable),
		goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return fmt.Errorf("our migrations: %w", err)
	}
	if m.versions, err = Status(ctx, own); err != nil {
		return err
	}
	return f(m)
}

// refuse returns a *NotEmptyError while there is something to lose.
func (m *migrator) refuse(ctx context.Context) error {
	var e NotEmptyError
	for table, n := range map[string]*int64{"deployments": &e.Deployments, "provisioner_resources": &e.Resources} {
		var exists bool
		if err := m.pool.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", Schema+"."+table).Scan(&exists); err != nil {
			return fmt.Errorf("look for %s: %w", table, err)
		}
		if !exists {
			continue
		}
		if err := m.pool.QueryRow(ctx, "SELECT count(*) FROM "+Schema+"."+table).Scan(n); err != nil {
			return fmt.Errorf("count %s: %w", table, err)
		}
	}
	if e.Deployments+e.Resources > 0 {
		return &e
	}
	return nil
}
