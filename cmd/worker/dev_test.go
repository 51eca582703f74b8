package main

import (
	"context"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"berth/db"
	"berth/lifecycle"
)

var (
	pendingLine = regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d\.\d{3}  ([0-9a-f-]{36})  pending$`)
	runningLine = regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d\.\d{3}  ([0-9a-f-]{36})  \w+ → running +(http://127\.0\.0\.1:\d+)  \(\S+\)$`)
	standsLine  = regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d\.\d{3}  ([0-9a-f-]{36})  running +(http://127\.0\.0\.1:\d+)$`)
)

func ids(matches [][]string) []string {
	var out []string
	for _, m := range matches {
		out = append(out, m[1])
	}
	return out
}

// The whole path, in this process, on a given server.
func TestDevOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.ok("dev", "--once", "--deployments", "3")
	pending, running := pendingLine.FindAllStringSubmatch(first, -1), runningLine.FindAllStringSubmatch(first, -1)
	require.Len(t, pending, 3, first)
	require.ElementsMatch(t, ids(pending), ids(running), first)
	require.Contains(t, first, "all 3 deployments run")

	all := decode[[]lifecycle.Deployment](t, b.ok("deployment", "list", "--project", "demo/web", "--state", "running", "-o", "json"))
	require.Len(t, all, 3)
	require.Zero(t, b.count("SELECT count(*) FROM berth.workers WHERE alive_until > clock_timestamp()"))

	// What an earlier run made is found again; what was stopped or deleted meanwhile comes back.
	again := b.ok("dev", "--once", "--deployments", "3")
	require.ElementsMatch(t, ids(pending), ids(standsLine.FindAllStringSubmatch(again, -1)), again)
	b.ok("deployment", "stop", all[0].ID.String())
	b.ok("deployment", "delete", all[1].ID.String())
	last := b.ok("dev", "--once", "--deployments", "3")
	require.Contains(t, last, all[0].ID.String())
	require.NotContains(t, strings.Join(ids(runningLine.FindAllStringSubmatch(last, -1)), " "), all[1].ID.String())
	require.Contains(t, last, "all 3 deployments run")
}

func TestDevAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	release, err := alone(t.Context(), b.db.Pool)
	require.NoError(t, err)
	require.Contains(t, b.refused(exitFailed, "dev", "--once"), "another one works on this database")
	release()
	b.ok("dev", "--once", "--deployments", "1")
}

// A server that was named has its data elsewhere already.
func TestDevDataDirOfAnother(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.Contains(t, b.refused(exitUsage, "dev", "--once", "--data-dir", t.TempDir()), "give one of them")
}

func TestDevAnew(t *testing.T) {
	t.Parallel()
	newer := &db.SchemaError{Versions: db.Versions{Schema: db.Version{Applied: 9, Latest: 3}}}
	require.ErrorContains(t, demoDatabase{dir: "/data/dev15"}.anew(newer), "upgrade the worker, or remove /data/dev15 to begin anew")
	require.Equal(t, error(newer), demoDatabase{}.anew(newer), "what somebody named is not for us to throw away")
	require.Equal(t, errInterrupted, demoDatabase{dir: "/data/dev15"}.anew(errInterrupted))
}

// A pool of the same name that is somebody's is not taken over.
func TestDevForeignPool(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.provisioner(demoPoolName)
	b.hosts(demoPoolName, "http://10.0.0.1:8081")
	require.Contains(t, b.refused(exitFailed, "dev", "--once"), "http://10.0.0.1:8081")
	require.Zero(t, b.count("SELECT count(*) FROM berth.static_runtimes WHERE removed_at IS NOT NULL"))
}

// Until Ctrl-C it serves on, and shows what happens.
func TestDevServes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := start(t, b.env, "dev", "--deployments", "1")
	p.line(p.stdout, "all 1 deployments run")
	p.line(p.logged, "worker deployment list")
	d := decode[[]lifecycle.Deployment](t, b.ok("deployment", "list", "-o", "json"))
	b.ok("deployment", "stop", d[0].ID.String(), "--wait", patience.String())
	p.line(p.stdout, "stopped")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGINT))
	require.Equal(t, 0, p.wait().ExitStatus(), p.stderr.String())
	require.NotContains(t, p.stderr.String(), b.db.URL, "a URL that was given may hold a password")
}

// A private Postgres, kept for the next time.
func TestDevPrivate(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "berth-dev-") //nolint:usetesting // the test's own is closed to the user whom the server runs as
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755)) // the server may have to run as another user
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	first := worker(context.Background(), nil, "dev", "--once", "--deployments", "2", "--data-dir", dir)
	require.Zero(t, first.status, first.stderr)
	require.Len(t, runningLine.FindAllString(first.stdout, -1), 2)
	again := worker(context.Background(), nil, "dev", "--once", "--deployments", "2", "--data-dir", dir)
	require.Zero(t, again.status, again.stderr)
	require.Len(t, standsLine.FindAllString(again.stdout, -1), 2, again.stdout)
}

// Nothing to find Postgres with is told at once, with what to do about it.
func TestDevWithoutPostgres(t *testing.T) {
	t.Parallel()
	p := start(t, map[string]string{"BERTH_POSTGRES_BIN": t.TempDir(), "DATABASE_URL": ""}, "dev", "--once")
	require.Contains(t, p.line(p.logged, "worker: "), "BERTH_POSTGRES_BIN")
	require.Equal(t, exitFailed, p.wait().ExitStatus())
}
