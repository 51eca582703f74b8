package main

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"berth/db/dbtest"
)

// needNoDatabase are the commands that never ask for DATABASE_URL.
var needNoDatabase = []string{"config check", "bench", "healthcheck", "completion"}

// bringTheSchema are the commands that are there for a database without it.
var bringTheSchema = []string{"migrate up", "dev"}

// look are the last words of commands that change nothing.
var look = []string{"list", "show", "events", "status"}

// serve are the commands that do not end by themselves.
var serve = []string{"run", "dev"}

// everyCommand is each command that there is, with arguments that it takes. A new one is in it by itself.
func everyCommand(t *testing.T) map[string][]string {
	t.Helper()
	var c cli
	parser, err := kong.New(&c, kong.Vars(vars()))
	require.NoError(t, err)
	out := map[string][]string{}
	for _, n := range parser.Model.Leaves(true) {
		name := strings.Join(strings.Fields(n.FullPath())[1:], " ")
		if i := strings.IndexAny(name, "<["); i >= 0 {
			name = strings.TrimSpace(name[:i])
		}
		args := strings.Fields(name)
		for _, p := range n.Positional {
			if p.Required {
				args = append(args, argument(p))
			}
		}
		for _, group := range n.AllFlags(true) {
			for _, f := range group {
				if f.Required || f.Name == "timeout" { // what waits is not to wait long
					args = append(args, "--"+f.Name, argument(f.Value))
				}
			}
		}
		_, err := parser.Parse(args)
		require.NoError(t, err, "an argument of a kind that this test does not know")
		if slices.Contains(needNoDatabase, name) {
			continue
		}
		out[name] = args
	}
	require.Greater(t, len(out), 20)
	return out
}

// argument is a value that an argument takes, of what is in the database where it names something.
func argument(v *kong.Value) string {
	if v.Enum != "" {
		for _, one := range strings.Split(v.Enum, ",") {
			if one != "" {
				return one
			}
		}
	}
	switch v.Target.Type() {
	case reflect.TypeFor[id]():
		return someID
	case reflect.TypeFor[projectName]():
		return "acme/web"
	case reflect.TypeFor[time.Duration]():
		return "10ms"
	}
	switch v.Target.Kind() {
	case reflect.Int, reflect.Int64, reflect.Float64:
		return "1"
	}
	if v.Name == "HOST" {
		return "http://127.0.0.1:1"
	}
	return "acme"
}

// everything is all that a database holds: the rows of each table, and which tables there are. A standby has no unlogged ones.
func everything(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	var b strings.Builder
	rows, err := pool.Query(t.Context(), `SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'S', 'v', 'i') AND c.relpersistence = 'p' AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') ORDER BY 1`)
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	for _, n := range names {
		b.WriteString(n + "\n")
	}
	rows, err = pool.Query(t.Context(), `SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1`)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	for _, n := range tables {
		var all string
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT coalesce(string_agg(r::text, E'\n' ORDER BY r::text), '') FROM "+n+" r").Scan(&all))
		b.WriteString(n + ":\n" + all + "\n")
	}
	return b.String()
}

// fails runs a command that has to fail at once, with one line on stderr that says what is wrong and what to do.
func fails(t *testing.T, env map[string]string, args []string, want ...string) {
	t.Helper()
	what := strings.Join(args, " ")
	r := worker(t.Context(), env, args...)
	require.Equal(t, exitFailed, r.status, "worker %s: %s", what, r.stderr)
	require.Empty(t, r.stdout, what)
	require.Equal(t, 1, strings.Count(r.stderr, "\n"), "worker %s: %s", what, r.stderr)
	require.True(t, strings.HasPrefix(r.stderr, "worker: "), r.stderr)
	for _, w := range want {
		require.Contains(t, r.stderr, w, what)
	}
}

// Each command says in one line what is the matter with a database that it cannot work on.
func TestEveryCommandWithoutADatabase(t *testing.T) {
	t.Parallel()
	env := configuredWith(poolSet, "static-example")
	env["DATABASE_URL"] = "postgres://u:hunter2@127.0.0.1:1/nowhere"
	for _, args := range everyCommand(t) {
		fails(t, env, args, `"127.0.0.1:1"`, "check DATABASE_URL, and that the server runs")
	}
}

func TestEveryCommandWithoutTheSchema(t *testing.T) {
	t.Parallel()
	d := dbtest.NewEmpty(t)
	env := configuredWith(poolSet, "static-example")
	env["DATABASE_URL"] = d.URL
	before := everything(t, d.Pool)
	for name, args := range everyCommand(t) {
		switch {
		case slices.Contains(bringTheSchema, name):
			continue
		case name == "migrate status":
			r := worker(t.Context(), env, args...)
			require.Zero(t, r.status, r.stderr)
			require.Contains(t, r.stdout, "run worker migrate up")
		case name == "migrate down":
			require.Zero(t, worker(t.Context(), env, args...).status, "nothing to drop is done")
		default:
			fails(t, env, args, "the schema is not there: run worker migrate up")
		}
		require.Equal(t, before, everything(t, d.Pool), name)
	}
}

func TestEveryCommandOnANewerSchema(t *testing.T) {
	t.Parallel()
	b := filled(t)
	b.exec("INSERT INTO berth.goose_db_version (version_id, is_applied) VALUES (99999, true)")
	before := everything(t, b.db.Pool)
	for name, args := range everyCommand(t) {
		if name == "migrate status" {
			r := b.worker(args...)
			require.Zero(t, r.status, r.stderr)
			require.Contains(t, r.stdout, "upgrade the worker")
		} else {
			fails(t, b.env, args, "the schema is newer than this worker", "upgrade the worker")
		}
		require.Equal(t, before, everything(t, b.db.Pool), name)
	}
}

// filled is a database with one of each, on which commands find what they ask for.
func filled(t *testing.T) *testBundle {
	t.Helper()
	b := setup(t)
	b.with(configuredWith(poolSet, "static-example"))
	b.fill()
	return b
}

func (b *testBundle) fill() {
	b.t.Helper()
	b.provisioner("acme") // each argument NAME says acme
	b.exec("INSERT INTO berth.static_runtimes (provisioner, host, url, audience, data_dir, slots) VALUES ('acme', 'http://127.0.0.1:1', 'http://127.0.0.1:1', '', '', 1)")
	b.ok("org", "create", "acme")
	b.ok("project", "create", "acme/web")
	b.ok("deployment", "create", "acme/web", "--id", someID, "--environment", "dev")
}

// A command that changes nothing works on a database that takes no writes as on any other. One that changes something says that it
// does not, and what to do. What a command does is known by running it on a database that does take them. A standby takes none
// whatever a session says.
func TestEveryCommandOnADatabaseThatTakesNoWrites(t *testing.T) {
	t.Parallel()
	readOnly := filled(t)
	var name string
	require.NoError(t, readOnly.db.Pool.QueryRow(t.Context(), "SELECT current_database()").Scan(&name))
	readOnly.exec("ALTER DATABASE " + name + " SET default_transaction_read_only = on")
	bundles := map[string]*testBundle{"read-only": readOnly, "standby": standby(t)}
	before := map[string]string{}
	for kind, b := range bundles {
		before[kind] = everything(t, b.db.Pool)
	}
	for name, args := range everyCommand(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want result
			changes := slices.Contains(serve, name)
			if !changes {
				other := filled(t)
				had := everything(t, other.db.Pool)
				want = other.worker(args...)
				changes = everything(t, other.db.Pool) != had
			}
			for kind, b := range bundles {
				reads := slices.Contains(look, args[min(1, len(args)-1)])
				got := worker(t.Context(), b.env, args...)
				if reads || !changes && got.status == want.status {
					require.Equal(t, want.status, got.status, "%s: %s", kind, got.stderr)
					require.Equal(t, strings.Count(want.stderr, "\n"), strings.Count(got.stderr, "\n"), got.stderr)
				} else { // also what would change nothing this time: it makes the configured provisioners known first
					fails(t, b.env, args, "SQLSTATE 25006", "set DATABASE_URL to a database that takes writes")
				}
				require.Equal(t, before[kind], everything(t, b.db.Pool), kind)
			}
		})
	}
}

// standby is a filled database on a server that follows another.
func standby(t *testing.T) *testBundle {
	t.Helper()
	d := dbtest.Private(t, dbtest.PrivateOptions{Settings: map[string]string{"wal_level": "replica"}})
	b := &testBundle{t, d, map[string]string{"DATABASE_URL": d.URL}}
	b.with(configuredWith(poolSet, "static-example"))
	b.fill()
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(d.Server.LogPath()), "standby.signal"), nil, 0o644))
	require.NoError(t, d.Server.Restart(t.Context(), false))
	var follows bool
	require.Eventually(t, func() bool { // the pool finds out that its connections are gone as it uses them
		return d.Pool.QueryRow(t.Context(), "SELECT pg_is_in_recovery()").Scan(&follows) == nil
	}, patience, 10*time.Millisecond)
	require.True(t, follows)
	d.Pool.Reset()
	return b
}
