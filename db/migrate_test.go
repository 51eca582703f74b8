package db_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"berth/db"
	"berth/db/dbtest"
)

// strings of one column.
func column(t *testing.T, pool *pgxpool.Pool, query string, args ...any) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), query, args...)
	require.NoError(t, err)
	values, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return values
}

// shape is everything that stands in the schema, as lines.
func shape(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	return strings.Join(column(t, pool, `
		SELECT line FROM (
			SELECT 'relation ' || c.relkind::text || ' ' || c.relname || coalesce(' ' || array_to_string(c.reloptions, ','), '') AS line
			FROM pg_class c WHERE c.relnamespace = 'berth'::regnamespace
			UNION ALL SELECT 'column ' || c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || ' ' || a.attnotnull
				|| coalesce(' ' || pg_get_expr(d.adbin, d.adrelid), '')
			FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
			LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum WHERE c.relnamespace = 'berth'::regnamespace
			UNION ALL SELECT 'constraint ' || conrelid::regclass::text || ' ' || conname || ' ' || pg_get_constraintdef(oid)
			FROM pg_constraint WHERE connamespace = 'berth'::regnamespace
			UNION ALL SELECT 'index ' || indexdef FROM pg_indexes WHERE schemaname = 'berth'
			UNION ALL SELECT 'view ' || viewname || ' ' || definition FROM pg_views WHERE schemaname = 'berth'
			UNION ALL SELECT 'function ' || pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'berth'::regnamespace AND prokind = 'f'
			UNION ALL SELECT 'trigger ' || pg_get_triggerdef(g.oid) FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid
			WHERE c.relnamespace = 'berth'::regnamespace AND NOT g.tgisinternal
			UNION ALL SELECT 'type ' || typname || ' ' || typtype::text FROM pg_type WHERE typnamespace = 'berth'::regnamespace
		) all_of_it ORDER BY line`), "\n")
}

// fill migrates an empty database step by step, and puts in after each step the rows that a program of that version would
// have written. Each migration but the first thus runs over rows that are older than it.
func fill(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	latest, err := db.Status(t.Context(), pool)
	require.NoError(t, err)
	fillTo(t, pool, latest.Schema.Latest)
	_, err = pool.Exec(t.Context(), `INSERT INTO berth.river_job (kind, args, max_attempts) VALUES ('provision_resource', '{}', 25)`)
	require.NoError(t, err)
	for _, table := range column(t, pool, `SELECT relname::text FROM pg_class
		WHERE relnamespace = 'berth'::regnamespace AND relkind = 'r' AND relname NOT LIKE 'river\_%' ORDER BY relname`) {
		var n int
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM berth."+table).Scan(&n))
		require.Positive(t, n, "no test migrates rows of %s: put some into testdata/filled, in the file of the migration that makes it", table)
	}
}

// fillTo is fill up to a version, and no further.
func fillTo(t *testing.T, pool *pgxpool.Pool, version int64) {
	t.Helper()
	for v := int64(1); v <= version; v++ {
		require.NoError(t, db.MigrateTo(t.Context(), pool, v))
		rows, err := os.ReadFile(fmt.Sprintf("testdata/filled/%05d.sql", v))
		if errors.Is(err, fs.ErrNotExist) {
			continue // that one made no table
		}
		require.NoError(t, err)
		_, err = pool.Exec(t.Context(), string(rows))
		require.NoError(t, err, "rows of version %d", v)
	}
}

func TestMigrateUpDownUp(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		filled bool
	}{
		"Empty":  {reason: "a new database"},
		"Filled": {reason: "a database with rows in every table", filled: true},
	}
	want := shape(t, dbtest.New(t).Pool)
	require.Contains(t, want, "constraint berth.river_job river_job_args_object")
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := dbtest.NewEmpty(t).Pool
			if tc.filled {
				fill(t, pool)
			}
			for range 2 {
				require.NoError(t, db.Migrate(t.Context(), pool), tc.reason)
				if diff := cmp.Diff(want, shape(t, pool)); diff != "" {
					t.Fatalf("%s: -want +got\n%s", tc.reason, diff)
				}
			}
			require.NoError(t, db.RequireCurrent(t.Context(), pool))
			if tc.filled {
				require.Equal(t, "2", column(t, pool, "SELECT count(*)::text FROM berth.deployments")[0], "rows outlive migrations")
			}
			for range 2 {
				require.NoError(t, db.MigrateDown(t.Context(), pool, tc.filled), tc.reason)
				require.Empty(t, shape(t, pool), "nothing is left")
			}
			require.NoError(t, db.Migrate(t.Context(), pool), tc.reason)
			if diff := cmp.Diff(want, shape(t, pool)); diff != "" {
				t.Fatalf("%s, for the second time: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestMigrateDownRefuses(t *testing.T) {
	t.Parallel()
	pool := dbtest.NewEmpty(t).Pool
	fill(t, pool)
	err := db.MigrateDown(t.Context(), pool, false)
	var full *db.NotEmptyError
	require.ErrorAs(t, err, &full)
	require.Equal(t, db.NotEmptyError{Deployments: 2, Resources: 4}, *full)
	require.NoError(t, db.RequireCurrent(t.Context(), pool), "nothing was touched")

	_, err = pool.Exec(t.Context(), "TRUNCATE berth.provisioner_resources, berth.deployments CASCADE")
	require.NoError(t, err)
	require.NoError(t, db.MigrateDown(t.Context(), pool, false), "organizations and projects stand for nothing outside")
	require.NoError(t, db.MigrateDown(t.Context(), pool, false), "and it may be repeated")
}

func TestMigrateAtOnce(t *testing.T) {
	t.Parallel()
	d := dbtest.NewEmpty(t)
	const migrators = 6
	errs := make(chan error, migrators)
	for range migrators {
		pool := d.Open(t, db.PoolOptions{MaxConns: 1}) // even one connection is enough
		go func() { errs <- db.Migrate(t.Context(), pool) }()
	}
	for range migrators {
		require.NoError(t, <-errs)
	}
	require.NoError(t, db.RequireCurrent(t.Context(), d.Pool))
}

func TestMigrateIsPatient(t *testing.T) {
	t.Parallel()
	d := dbtest.NewEmpty(t)
	worker := d.Open(t, db.PoolOptions{MaxConns: 2, Worker: true})
	holder, err := d.Pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = holder.Exec(t.Context(), "SELECT pg_advisory_xact_lock(x'6265727468'::bigint)")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- db.Migrate(t.Context(), worker) }()
	// Far longer than a worker waits for a lock.
	require.Eventually(t, func() bool {
		var n int
		err := d.Pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND wait_event = 'advisory' AND clock_timestamp() - query_start > interval '700 milliseconds'`).Scan(&n)
		return err == nil && n == 1
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, holder.Rollback(t.Context()))
	require.NoError(t, <-done)
}

func TestMigrateGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	d := dbtest.NewEmpty(t)
	holder, err := d.Pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = holder.Exec(t.Context(), "SELECT pg_advisory_xact_lock(x'6265727468'::bigint)")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- db.Migrate(ctx, d.Pool) }()
	require.Eventually(t, func() bool {
		return len(column(t, d.Pool, "SELECT pid::text FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'")) == 1
	}, time.Minute, 10*time.Millisecond)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	require.NoError(t, holder.Rollback(t.Context()))
	require.NoError(t, db.Migrate(t.Context(), d.Pool), "and stands in nobody's way")
}

// A database administrator may have made the schema for a user who may make none.
func TestMigrateInSchemaOfOthers(t *testing.T) {
	t.Parallel()
	d := dbtest.NewEmpty(t)
	role := column(t, d.Pool, "SELECT current_database()::text || '_user'")[0]
	for _, q := range []string{"CREATE ROLE " + role, "CREATE SCHEMA berth", "GRANT ALL ON SCHEMA berth TO " + role} {
		_, err := d.Pool.Exec(t.Context(), q)
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		for _, q := range []string{"DROP OWNED BY " + role, "DROP ROLE " + role} {
			_, err := d.Pool.Exec(context.Background(), q)
			require.NoError(t, err)
		}
	})
	config := d.Pool.Config()
	config.ConnConfig.RuntimeParams["role"] = role
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	require.NoError(t, db.Migrate(t.Context(), pool))
	require.NoError(t, db.RequireCurrent(t.Context(), pool))
	require.NoError(t, db.MigrateDown(t.Context(), pool, false))
}

func TestJobsAreObjects(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t).Pool
	tests := map[string]struct{ reason, args, metadata, constraint string }{
		"Args":     {reason: "River cannot decode a list", args: `[]`, metadata: `{}`, constraint: "river_job_args_object"},
		"Null":     {reason: "nor the null of JSON", args: `null`, metadata: `{}`, constraint: "river_job_args_object"},
		"Metadata": {reason: "and merges into metadata", args: `{}`, metadata: `"x"`, constraint: "river_job_metadata_object"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := pool.Exec(t.Context(), "INSERT INTO berth.river_job (kind, args, metadata, max_attempts) VALUES ('k', $1, $2, 1)", tc.args, tc.metadata)
			var refused *pgconn.PgError
			require.ErrorAs(t, err, &refused, tc.reason)
			require.Equal(t, tc.constraint, refused.ConstraintName)
		})
	}
}
