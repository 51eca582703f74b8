package dbtest

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/db"
)

// deadPid is that of a process that has ended.
func deadPid(t *testing.T) int {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-test.list", "^$")
	require.NoError(t, cmd.Run())
	return cmd.Process.Pid
}

// given is a private server seen as one that TEST_DATABASE_URL names.
func given(t *testing.T, d *DB) *cluster {
	t.Helper()
	c, err := open(t.Context(), nil, d.Server.URL("postgres"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.close()) })
	return c
}

func databases(t *testing.T, c *cluster) []string {
	t.Helper()
	rows, err := c.admin.Query(t.Context(), `SELECT datname FROM pg_database WHERE datname LIKE 'berth\_%' ORDER BY oid`)
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return names
}

func TestSweep(t *testing.T) {
	t.Parallel()
	c := given(t, Private(t, PrivateOptions{}))
	dead := fmt.Sprintf("berth_t_%s_%d_1", host(), deadPid(t))
	earlier := fmt.Sprintf("berth_t_%s_%d_1", host(), os.Getpid())
	living := fmt.Sprintf("berth_t_%s_%d_1", host(), os.Getppid())
	elsewhere := fmt.Sprintf("berth_t_0elsewhere_%d_1", deadPid(t))
	other := "berth_t_of_a_person"
	for _, n := range []string{dead, earlier, living, elsewhere, other} {
		_, err := c.admin.Exec(t.Context(), "CREATE DATABASE "+n)
		require.NoError(t, err)
	}
	require.NoError(t, c.prepare(t.Context(), c.sweep))
	require.Equal(t, []string{c.template, living, elsewhere, other}, databases(t, c))
}

func TestSweepTemplates(t *testing.T) {
	t.Parallel()
	c := given(t, Private(t, PrivateOptions{}))
	var want []string
	for i := range templatesKept + 2 {
		name := fmt.Sprintf("berth_template_old%d", i)
		_, err := c.admin.Exec(t.Context(), "CREATE DATABASE "+name+" IS_TEMPLATE true ALLOW_CONNECTIONS false")
		require.NoError(t, err)
		want = append(want, name)
	}
	require.NoError(t, c.prepare(t.Context(), c.sweep))
	require.Equal(t, append([]string{c.template}, want[2:]...), databases(t, c), "our own stays, and the latest others")
}

func TestTemplateIsMadeOnce(t *testing.T) {
	t.Parallel()
	d := Private(t, PrivateOptions{})
	const processes = 4
	opened, errs := make(chan *cluster, processes), make(chan error, processes)
	for range processes {
		go func() {
			c, err := open(t.Context(), nil, d.Server.URL("postgres"))
			opened <- c
			errs <- err
		}()
	}
	for range processes {
		require.NoError(t, <-errs)
		require.NoError(t, (<-opened).close())
	}
	c := given(t, d)
	require.Equal(t, []string{c.template}, databases(t, c))
}

func TestHalfMadeTemplateIsMadeAnew(t *testing.T) {
	t.Parallel()
	c := given(t, Private(t, PrivateOptions{}))
	// As if the process that made it had been killed before it was done.
	_, err := c.admin.Exec(t.Context(), "ALTER DATABASE "+c.template+" WITH IS_TEMPLATE false")
	require.NoError(t, err)
	require.NoError(t, c.prepare(t.Context(), nil))
	require.NoError(t, db.RequireCurrent(t.Context(), c.database(t, true).Pool))
}

func TestTemplateThatVanishedIsMadeAnew(t *testing.T) {
	t.Parallel()
	c := given(t, Private(t, PrivateOptions{}))
	before := c.database(t, true)
	conn, err := c.admin.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, dropTemplate(t.Context(), conn.Conn(), c.template))
	conn.Release()
	require.NoError(t, db.RequireCurrent(t.Context(), c.database(t, true).Pool))
	require.NoError(t, db.RequireCurrent(t.Context(), before.Pool), "what was made before is not swept with it")
}

func TestDurableServerCopiesByLog(t *testing.T) {
	t.Parallel()
	c := given(t, Private(t, PrivateOptions{Durable: true}))
	require.Equal(t, "WAL_LOG", c.strategy, "each copied file would have to reach the disk")
	require.NoError(t, db.RequireCurrent(t.Context(), c.database(t, true).Pool))
}

func TestURLOf(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ reason, url, want string }{
		"Whole":   {"the name takes the place of the database", "postgres://u:p@h:5/db?sslmode=disable", "postgres://u:p@h:5/t?sslmode=disable"},
		"Socket":  {"a host in the query stays", "postgres:///db?host=/run/pg&user=u", "postgres:///t?host=/run/pg&user=u"},
		"NoQuery": {"what is not there is not made up", "postgresql://h/db", "postgresql://h/t"},
		"NoName":  {"a URL without a database", "postgres://h", "postgres://h/t"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := (&cluster{url: tc.url}).urlOf("t")
			require.NoError(t, err)
			require.Equal(t, tc.want, got, tc.reason)
		})
	}
	_, err := (&cluster{url: "host=h dbname=db"}).urlOf("t")
	require.ErrorContains(t, err, EnvURL)
}
