package db_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"berth/db"
	"berth/db/dbtest"
)

func TestStatus(t *testing.T) {
	t.Parallel()
	pool := dbtest.NewEmpty(t).Pool
	require.Equal(t, "the schema is not there: run worker migrate up", db.RequireCurrent(t.Context(), pool).Error())
	v, err := db.Status(t.Context(), pool)
	require.NoError(t, err)
	require.Zero(t, v.Schema.Applied)
	require.Zero(t, v.Queue.Applied)
	require.GreaterOrEqual(t, v.Schema.Latest, int64(2))
	require.GreaterOrEqual(t, v.Queue.Latest, int64(8))
	require.Empty(t, column(t, pool, "SELECT nspname::text FROM pg_namespace WHERE nspname = 'berth'"), "looking writes nothing")

	require.NoError(t, db.MigrateTo(t.Context(), pool, 1))
	v, err = db.Status(t.Context(), pool)
	require.NoError(t, err)
	require.Equal(t, int64(1), v.Schema.Applied)
	require.Equal(t, v.Queue.Latest, v.Queue.Applied)
	var e *db.SchemaError
	require.ErrorAs(t, db.RequireCurrent(t.Context(), pool), &e)
	require.Equal(t, v, e.Versions)
	require.ErrorContains(t, e, "older than this worker")
	require.ErrorContains(t, e, "run worker migrate up")

	require.NoError(t, db.Migrate(t.Context(), pool))
	v, err = db.Status(t.Context(), pool)
	require.NoError(t, err)
	require.NoError(t, v.Err())
	require.Equal(t, v.Schema.Latest, v.Schema.Applied)
}

func TestNewerSchemaIsLeftAlone(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ reason, later string }{
		"Schema": {"one of ours that this program does not know", "INSERT INTO berth.goose_db_version (version_id, is_applied) VALUES (900, true)"},
		"Queue":  {"one of River's", "INSERT INTO berth.river_migration (line, version) VALUES ('main', 900)"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := dbtest.New(t).Pool
			_, err := pool.Exec(t.Context(), tc.later)
			require.NoError(t, err)
			before := shape(t, pool)
			var e *db.SchemaError
			for _, err := range []error{db.RequireCurrent(t.Context(), pool), db.Migrate(t.Context(), pool), db.MigrateDown(t.Context(), pool, true)} {
				require.ErrorAs(t, err, &e, tc.reason)
				require.ErrorContains(t, err, "newer than this worker")
				require.ErrorContains(t, err, "upgrade the worker")
			}
			require.Equal(t, before, shape(t, pool))
		})
	}
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	a, err := db.Fingerprint()
	require.NoError(t, err)
	b, err := db.Fingerprint()
	require.NoError(t, err)
	require.Equal(t, a, b)
	require.Regexp(t, "^[0-9a-f]{16}$", a, "it becomes part of a name")
}
