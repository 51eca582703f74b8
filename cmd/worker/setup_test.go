package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/db/dbtest"
	"berth/lifecycle"
	"berth/provisioner"
)

// someID is the id of a deployment.
const someID = "0197b0e6-5c1a-7d2e-9f00-3a4b5c6d7e8f"

var update = flag.Bool("update", false, "rewrite the golden files")

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		main()
		return
	}
	_ = os.Unsetenv("COLUMNS") // help is as wide as it says
	dbtest.Main(m)
}

// buffer is what a command writes to, read while it runs.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// result is what a command left behind.
type result struct {
	stdout, stderr string // stderr with what main adds for an error
	status         int
}

// unheard has a worker that is not told where to listen not listen: there are others on this machine.
func unheard(args []string) []string {
	if len(args) == 0 || args[0] != "run" || slices.Contains(args, "--listen") {
		return args
	}
	return append(slices.Clone(args), "--listen", "")
}

// worker runs a command as main does, in this process.
func worker(ctx context.Context, env map[string]string, args ...string) result {
	var stdout, stderr buffer
	err := run(ctx, unheard(args), func(name string) (string, bool) { v, ok := env[name]; return v, ok }, &stdout, &stderr)
	if err != nil {
		_, _ = stderr.Write([]byte(errorLines(err)))
	}
	return result{stdout.String(), stderr.String(), exitStatus(err)}
}

// testBundle is a migrated database that commands work on.
type testBundle struct {
	t   *testing.T
	db  *dbtest.DB
	env map[string]string
}

func setup(t *testing.T) *testBundle {
	t.Helper()
	d := dbtest.New(t)
	return &testBundle{t, d, map[string]string{"DATABASE_URL": d.URL}}
}

// worker runs a command on the database.
func (b *testBundle) worker(args ...string) result {
	b.t.Helper()
	return worker(b.t.Context(), b.env, args...)
}

// ok is worker for what has to work. It returns what stands on stdout.
func (b *testBundle) ok(args ...string) string {
	b.t.Helper()
	r := b.worker(args...)
	require.Zero(b.t, r.status, "worker %s: %s", strings.Join(args, " "), r.stderr)
	return r.stdout
}

// refused is worker for what must not work, with one line on stderr, which it returns.
func (b *testBundle) refused(status int, args ...string) string {
	b.t.Helper()
	r := b.worker(args...)
	require.Equal(b.t, status, r.status, "worker %s: %s", strings.Join(args, " "), r.stderr)
	require.Empty(b.t, r.stdout)
	require.Equal(b.t, 1, strings.Count(r.stderr, "\n"), "one line: %s", r.stderr)
	require.True(b.t, strings.HasPrefix(r.stderr, "worker: "), r.stderr)
	return r.stderr
}

// provisioner registers one that holds runtimes, as a process that is configured with it would.
func (b *testBundle) provisioner(names ...string) {
	b.t.Helper()
	client, err := lifecycle.NewClient("test", slog.New(slog.DiscardHandler))
	require.NoError(b.t, err)
	var all []lifecycle.Configured
	for _, n := range names {
		all = append(all, lifecycle.Configured{Name: n, Type: "static", Info: provisioner.Info{Types: []provisioner.ResourceType{provisioner.Runtime}}})
	}
	require.NoError(b.t, pgx.BeginFunc(b.t.Context(), b.db.Pool, func(tx pgx.Tx) error {
		return client.RegisterProvisioners(b.t.Context(), tx, all, names[0])
	}))
}

// exec changes the database behind the command's back.
func (b *testBundle) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.db.Pool.Exec(b.t.Context(), sql, args...)
	require.NoError(b.t, err)
}

// decode reads one JSON document and nothing after it.
func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	d := json.NewDecoder(strings.NewReader(text))
	require.NoError(t, d.Decode(&v), text)
	require.False(t, d.More(), "one document: %s", text)
	return v
}

var (
	uuidForm = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	hexForm  = regexp.MustCompile(`\b[0-9a-f]{32}\b`)
	timeForm = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
)

// golden compares what a command wrote with a file, ids and times aside.
func golden(t *testing.T, name, got string) {
	t.Helper()
	got = uuidForm.ReplaceAllString(got, "00000000-0000-0000-0000-000000000000")
	got = hexForm.ReplaceAllString(got, strings.Repeat("0", 32))
	got = timeForm.ReplaceAllString(got, "2000-01-01T00:00:00Z")
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run the test with -update to write it")
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs; run the test with -update if that is right:\n%s", path, diff)
	}
}
