package main

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"berth/db/dbtest"
)

// A user who may not is told what to do.
func TestMigrateWithoutRights(t *testing.T) {
	t.Parallel()
	denied := fmt.Errorf("create the schema: %w", &pgconn.PgError{Severity: "ERROR", Code: "42501", Message: "permission denied for database x"})
	require.Equal(t, "worker: create the schema: ERROR: permission denied for database x (SQLSTATE 42501): connect as a user who may, such as the owner of the database\n",
		errorLines(denied))
	ended := fmt.Errorf("list: %w", &pgconn.PgError{Severity: "FATAL", Code: "57P01", Message: "terminating connection"})
	require.Contains(t, errorLines(ended), "(SQLSTATE 57P01): try again when the server is up\n")
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	d := dbtest.NewEmpty(t)
	b := &testBundle{t, d, map[string]string{"DATABASE_URL": d.URL}}

	s := decode[standing](t, b.ok("migrate", "status", "-o", "json"))
	require.False(t, s.Current)
	require.Zero(t, s.Schema.Applied)
	require.Positive(t, s.Schema.Latest)
	require.Contains(t, s.Message, "worker migrate up")
	require.Contains(t, b.refused(exitFailed, "org", "list"), "worker migrate up")

	for range 2 { // it may be repeated
		require.Empty(t, b.ok("migrate", "up"))
	}
	s = decode[standing](t, b.ok("migrate", "status", "-o", "json"))
	require.True(t, s.Current)
	require.Equal(t, s.Schema.Latest, s.Schema.Applied)
	require.Equal(t, s.Queue.Latest, s.Queue.Applied)
	require.Contains(t, b.ok("migrate", "status"), "what this worker needs")

	b.provisioner("static-example")
	b.ok("org", "create", "acme")
	b.ok("project", "create", "acme/web")
	b.ok("deployment", "create", "acme/web")
	require.Contains(t, b.refused(exitRefused, "migrate", "down"), "1 deployments")
	b.ok("org", "list") // nothing was dropped

	for range 2 {
		require.Empty(t, b.ok("migrate", "down", "--discard"))
	}
	require.False(t, decode[standing](t, b.ok("migrate", "status", "-o", "json")).Current)
	b.ok("migrate", "up")
	require.Equal(t, "[]\n", b.ok("org", "list", "-o", "json"))
}

func TestSchemaNewer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec("INSERT INTO berth.goose_db_version (version_id, is_applied) VALUES (99999, true)")
	require.Contains(t, b.refused(exitFailed, "org", "list"), "upgrade the worker")
	require.Contains(t, b.ok("migrate", "status"), "upgrade the worker")
}
