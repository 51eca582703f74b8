//go:build unix && !aix && !solaris

package postgres

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// childEnv makes this program a second user of the cluster in that directory, a temporary one if it begins with tmp:.
const childEnv = "BERTH_POSTGRES_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		if err := child(dir); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// child uses the cluster, says so, and leaves it when its input ends.
func child(dir string) error {
	o := Options{Name: "t"}
	o.Dir, o.Temporary = strings.CutPrefix(dir, "tmp:")
	s, err := Start(context.Background(), o)
	if err != nil {
		return err
	}
	fmt.Println(s.Pid(), s.dir)
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return s.Close()
}

// second is another process that uses a cluster.
type second struct {
	cmd        *exec.Cmd
	in         io.Closer
	postmaster int
	dir        string
}

func startSecond(t *testing.T, dir string) *second {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	pid, data, _ := strings.Cut(strings.TrimSpace(line), " ")
	s := &second{cmd: cmd, in: in, dir: data}
	s.postmaster, err = strconv.Atoi(pid)
	require.NoError(t, err, line)
	return s
}

// leave makes it close the cluster; kill makes it vanish.
func (s *second) leave(t *testing.T) {
	t.Helper()
	require.NoError(t, s.in.Close())
	require.NoError(t, s.cmd.Wait())
}

func (s *second) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, s.cmd.Process.Kill())
	_ = s.cmd.Wait()
}

// shortDir is a directory that is short enough for a socket and open to the server's user.
func shortDir(t *testing.T) string {
	t.Helper()
	parent := memory()
	dir, err := os.MkdirTemp(parent, "t") //nolint:usetesting // that one may be too long, and closed to the server
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

func startServer(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// query runs statements and returns the first value of the last one.
func query(t *testing.T, s *Server, statements ...string) (value string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL("postgres"))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	for _, q := range statements[:len(statements)-1] {
		_, err := conn.Exec(t.Context(), q)
		require.NoError(t, err, q)
	}
	require.NoError(t, conn.QueryRow(t.Context(), statements[len(statements)-1]).Scan(&value))
	return value
}

func TestLastOneOutStops(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	s := startServer(t, Options{Dir: dir, Name: "t"})
	pid := s.Pid()
	require.Positive(t, pid)
	other := startSecond(t, dir)
	require.Equal(t, pid, other.postmaster, "the second process joins what runs")
	require.NoError(t, s.Close())
	require.Equal(t, pid, s.Pid(), "the second process still uses it")
	require.NoError(t, s.Close(), "closing may be repeated")
	other.leave(t)
	require.Zero(t, s.Pid(), "the last one out stops it")

	again := startServer(t, Options{Dir: dir, Name: "t"})
	require.NotEqual(t, pid, again.Pid())
	one := startServer(t, Options{Dir: dir, Name: "t"})
	require.NoError(t, again.Close())
	require.Equal(t, "1", query(t, one, "SELECT 1::text"), "two users in one process are two users")
}

func TestKilledUserLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	other := startSecond(t, dir)
	other.kill(t)
	s := startServer(t, Options{Dir: dir, Name: "t"})
	require.Equal(t, other.postmaster, s.Pid(), "the next one joins what the killed one started")
	require.NoError(t, s.Close())
	require.Zero(t, s.Pid(), "the killed one is no user any more")
}

func TestKilledPostmaster(t *testing.T) {
	t.Parallel()
	for name, durable := range map[string]bool{"Durable": true, "Fast": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := shortDir(t)
			s := startServer(t, Options{Dir: dir, Name: "t", Durable: durable})
			pid := s.Pid()
			// A checkpoint first, for what is not durable may lose what was not written yet.
			query(t, s, "CREATE TABLE kept (v text)", "INSERT INTO kept VALUES ('here')", "CHECKPOINT", "SELECT 1::text")
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
			joined := startServer(t, Options{Dir: dir, Name: "t", Durable: durable})
			require.NotEqual(t, pid, joined.Pid())
			require.Equal(t, "here", query(t, joined, "SELECT v FROM kept"))
			require.Equal(t, map[bool]string{true: "on", false: "off"}[durable], query(t, joined, "SHOW fsync"))
		})
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	s := startServer(t, Options{Dir: dir, Name: "t", Settings: map[string]string{"max_connections": "17"}})
	for _, immediate := range []bool{false, true} {
		pid := s.Pid()
		require.NoError(t, s.Restart(t.Context(), immediate))
		require.NotEqual(t, pid, s.Pid())
		require.Equal(t, "17", query(t, s, "SHOW max_connections"))
	}
	require.NoError(t, syscall.Kill(s.Pid(), syscall.SIGKILL))
	require.NoError(t, s.Restart(t.Context(), false), "one that was killed is started")
	log, err := os.ReadFile(s.LogPath())
	require.NoError(t, err)
	require.Contains(t, string(log), "received fast shutdown request", "the log is kept over restarts")
	require.Contains(t, string(log), "received immediate shutdown request")
	require.NoError(t, s.Close())
	require.Error(t, s.Restart(t.Context(), false))
}

func TestStalePidFile(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	s := startServer(t, Options{Dir: dir, Name: "t"})
	require.NoError(t, s.Close())
	// After a reboot the number may be anybody's; here it is that of the process that started this one.
	require.NoError(t, os.WriteFile(s.pidFile(), []byte(strconv.Itoa(os.Getppid())+"\n"+s.dir+"\n"), 0o644))
	again := startServer(t, Options{Dir: dir, Name: "t"})
	require.Equal(t, "1", query(t, again, "SELECT 1::text"))
}

// A backend that outlives its postmaster may still write: no new server may start beside it.
func TestBackendOutlivesPostmaster(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	s := startServer(t, Options{Dir: dir, Name: "t"})
	conn, err := pgx.Connect(t.Context(), s.URL("postgres"))
	require.NoError(t, err)
	var backend int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&backend))
	require.NoError(t, syscall.Kill(backend, syscall.SIGSTOP))
	t.Cleanup(func() { _ = syscall.Kill(backend, syscall.SIGKILL) })
	require.NoError(t, syscall.Kill(s.Pid(), syscall.SIGKILL))

	_, err = Start(t.Context(), Options{Dir: dir, Name: "t"})
	require.ErrorIs(t, err, errInUse)
	require.NoError(t, syscall.Kill(backend, syscall.SIGKILL))
	again := startServer(t, Options{Dir: dir, Name: "t"})
	require.Equal(t, "1", query(t, again, "SELECT 1::text"))
	_ = conn.Close(t.Context())
}

func TestHalfMadeCluster(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	s := startServer(t, Options{Dir: dir, Name: "t"})
	require.NoError(t, s.Close())
	// As if initdb had been killed: what it wrote is beside the place, with nothing in the place.
	require.NoError(t, os.Remove(filepath.Join(s.dir, "postgresql.conf")))
	require.NoError(t, os.Rename(s.dir, s.dir+".init"))
	again := startServer(t, Options{Dir: dir, Name: "t"})
	require.Equal(t, "1", query(t, again, "SELECT 1::text"))
}

func TestBrokenSettingIsTold(t *testing.T) {
	t.Parallel()
	_, err := Start(t.Context(), Options{Dir: shortDir(t), Name: "t", Settings: map[string]string{"shared_buffers": "plenty"}})
	require.ErrorContains(t, err, "start Postgres: it exited")
	require.ErrorContains(t, err, "shared_buffers", "the server's own words are in the error")
	require.NotContains(t, err.Error(), "\n")
}

func TestTemporary(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	a := startServer(t, Options{Dir: dir, Temporary: true})
	b := startServer(t, Options{Dir: dir, Temporary: true})
	require.NotEqual(t, a.Pid(), b.Pid(), "each has its own")
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
	require.Empty(t, entries(t, dir), "they are gone without a trace")
}

func TestTemporaryOfKilledProcessIsSwept(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	live := startSecond(t, "tmp:"+dir)
	dead := startSecond(t, "tmp:"+dir)
	dead.kill(t)
	s := startServer(t, Options{Dir: dir, Temporary: true})
	require.NoDirExists(t, dead.dir)
	require.Eventually(t, func() bool { return syscall.Kill(dead.postmaster, 0) != nil }, time.Minute, time.Millisecond,
		"its server is stopped too")
	require.DirExists(t, live.dir, "one whose owner lives is left alone")
	require.NoError(t, s.Close())
	live.leave(t)
	require.Empty(t, entries(t, dir))
}
