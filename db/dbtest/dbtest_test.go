package dbtest

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/db"
	"berth/internal/postgres"
)

// leakEnv makes this program leave a goroutine behind.
const leakEnv = "BERTH_DBTEST_TEST_LEAK"

func TestMain(m *testing.M) {
	if os.Getenv(leakEnv) != "" {
		go func() { select {} }()
	}
	Main(m)
}

func TestMainFindsLeaks(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	for _, leak := range []string{"", "yes"} {
		cmd := exec.CommandContext(t.Context(), self, "-test.run", "^TestNew$")
		cmd.Env = append(os.Environ(), leakEnv+"="+leak)
		out, err := cmd.CombinedOutput()
		if leak == "" {
			require.NoError(t, err, "%s", out)
			continue
		}
		require.Error(t, err)
		require.Contains(t, string(out), "goroutines are left over")
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	a, b := New(t), New(t)
	require.NotEqual(t, a.URL, b.URL)
	require.NoError(t, db.RequireCurrent(t.Context(), a.Pool))
	_, err := a.Pool.Exec(t.Context(), "INSERT INTO berth.organizations (name) VALUES ('acme')")
	require.NoError(t, err)
	var n int
	require.NoError(t, b.Pool.QueryRow(t.Context(), "SELECT count(*) FROM berth.organizations").Scan(&n))
	require.Zero(t, n, "one test's rows are no other test's")
}

func TestDatabaseGoesWithItsTest(t *testing.T) {
	t.Parallel()
	var url string
	var left *pgx.Conn
	t.Run("Inner", func(t *testing.T) {
		d := NewEmpty(t)
		url = d.URL
		var err error
		left, err = pgx.Connect(t.Context(), d.URL)
		require.NoError(t, err)
	})
	require.Error(t, left.Ping(t.Context()), "who is still connected does not keep it")
	_, err := db.Open(t.Context(), url, db.PoolOptions{MaxConns: 1})
	require.ErrorContains(t, err, "does not exist")
}

func TestPrivate(t *testing.T) {
	t.Parallel()
	d := Private(t, PrivateOptions{Durable: true, Settings: map[string]string{"max_connections": "23"}})
	require.NoError(t, db.RequireCurrent(t.Context(), d.Pool))
	_, err := d.Pool.Exec(t.Context(), "INSERT INTO berth.organizations (name) VALUES ('acme')")
	require.NoError(t, err)
	require.NoError(t, d.Server.Restart(t.Context(), true))
	var most, n string
	require.Eventually(t, func() bool { // the pool finds out that its connections are gone as it uses them
		return d.Pool.QueryRow(t.Context(), "SELECT current_setting('max_connections'), count(*)::text FROM berth.organizations").Scan(&most, &n) == nil
	}, time.Minute, time.Millisecond)
	require.Equal(t, "23", most)
	require.Equal(t, "1", n, "what was committed survives a crash")
}

func TestDir(t *testing.T) {
	t.Parallel()
	dir := Dir(t)
	s, err := postgres.Start(t.Context(), postgres.Options{Dir: dir, Name: "dev"})
	require.NoError(t, err, "a server can be run there")
	require.NoError(t, s.Close())
}
