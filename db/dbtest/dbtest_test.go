package dbtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"berth/db"
	"berth/db/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

func TestNew(t *testing.T) {
	t.Parallel()
	a, b := dbtest.New(t), dbtest.New(t)
	require.NotEqual(t, a.URL, b.URL)
	require.NoError(t, db.RequireCurrent(t.Context(), a.Pool))
	_, err := a.Pool.Exec(t.Context(), "INSERT INTO berth.organizations (name) VALUES ('acme')")
	require.NoError(t, err)
	var n int
	require.NoError(t, b.Pool.QueryRow(t.Context(), "SELECT count(*) FROM berth.organizations").Scan(&n))
	require.Zero(t, n, "one test's rows are no other test's")
}
