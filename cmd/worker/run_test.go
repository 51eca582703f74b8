package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"berth/lifecycle"
	"berth/provisioner/set"
)

// asMain in the environment makes the test binary be the worker.
const asMain = "BERTH_TEST_AS_MAIN"

// patience is how long a test waits for what is certain to come.
const patience = time.Minute

// gate is a runtime that answers its pings once it is opened.
type gate struct {
	*httptest.Server
	asked  chan struct{} // closed at the first ping
	opened chan struct{}
	open   func()
}

func newGate(t *testing.T) *gate {
	t.Helper()
	g := &gate{asked: make(chan struct{}), opened: make(chan struct{})}
	g.open = sync.OnceFunc(func() { close(g.opened) })
	first := sync.OnceFunc(func() { close(g.asked) })
	g.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		first()
		select {
		case <-g.opened:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() { g.open(); g.Close() })
	return g
}

// pool is a set with one pool of these hosts.
func pool(t *testing.T, slots int, hosts ...string) map[string]string {
	t.Helper()
	var all []any
	for _, h := range hosts {
		all = append(all, map[string]any{"host": h, "slots": slots})
	}
	text, err := json.Marshal(map[string]any{"static-example": map[string]any{"type": "static", "spec": map[string]any{"runtimes": all}}})
	require.NoError(t, err)
	return map[string]string{set.EnvSet: string(text), set.EnvDefault: "static-example"}
}

// process is a worker in a process of its own.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout chan string // its lines
	stderr buffer
	logged chan string // lines of stderr
}

func start(t *testing.T, env map[string]string, args ...string) *process {
	t.Helper()
	return startCommand(t, exec.CommandContext(t.Context(), os.Args[0], unheard(args)...), env)
}

// startCommand is start for a command whose stderr may be something else than a pipe to the test.
func startCommand(t *testing.T, cmd *exec.Cmd, env map[string]string) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, stdout: make(chan string, 1000), logged: make(chan string, 1000)}
	p.cmd.Env = append(os.Environ(), asMain+"=1")
	for k, v := range env {
		p.cmd.Env = append(p.cmd.Env, k+"="+v)
	}
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	var stderr io.Reader = strings.NewReader("")
	if p.cmd.Stderr == nil {
		stderr, err = p.cmd.StderrPipe()
		require.NoError(t, err)
	}
	require.NoError(t, p.cmd.Start())
	var read sync.WaitGroup
	read.Go(func() { lines(stdout, p.stdout) })
	read.Go(func() { lines(io.TeeReader(stderr, &p.stderr), p.logged) })
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
		read.Wait()
	})
	return p
}

func lines(r io.Reader, to chan<- string) {
	defer close(to)
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		to <- s.Text()
	}
}

// line waits for a line that holds a text.
func (p *process) line(from <-chan string, text string) string {
	p.t.Helper()
	late := time.After(patience)
	for {
		select {
		case l, ok := <-from:
			require.True(p.t, ok, "it ended before it wrote %q: %s", text, p.stderr.String())
			if strings.Contains(l, text) {
				return l
			}
		case <-late:
			require.FailNow(p.t, "it did not write "+text, p.stderr.String())
		}
	}
}

// wait returns how the process ended.
func (p *process) wait() syscall.WaitStatus {
	p.t.Helper()
	for _, c := range []<-chan string{p.stdout, p.logged} { // read to the end, as Wait wants it
		for range c {
		}
	}
	_ = p.cmd.Wait()
	return p.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

func (b *testBundle) with(env map[string]string) *testBundle {
	for k, v := range env {
		b.env[k] = v
	}
	return b
}

// count asks for one number.
func (b *testBundle) count(sql string, args ...any) (n int) {
	b.t.Helper()
	require.NoError(b.t, b.db.Pool.QueryRow(context.WithoutCancel(b.t.Context()), sql, args...).Scan(&n))
	return n
}

func TestRun(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.open()
	b := setup(t).with(pool(t, 4, g.URL))
	b.ok("migrate", "up") // makes the pool known
	b.ok("org", "create", "acme")
	b.ok("project", "create", "acme/web", "--annotation", "big=9007199254740993")
	id := uuid.NewString()
	b.ok("deployment", "create", "acme/web", "--id", id)

	p := start(t, b.env, "run", "--max-workers", "5", "--runtime-version", "v9.9.9")
	require.Equal(t, "ready", p.line(p.stdout, "ready"), "nothing else stands on that line")
	d := decode[lifecycle.Deployment](t, b.ok("deployment", "start", id, "--wait", patience.String(), "-o", "json"))
	require.Equal(t, lifecycle.Running, d.State)
	require.Equal(t, g.URL, d.RuntimeHost)
	require.Contains(t, p.line(p.logged, "jobs are taken"), `"runtime_version":"v9.9.9"`)
	require.Equal(t, "latest", d.Version, "a static pool runs what it runs, whatever latest means")
	require.Contains(t, string(d.Resources[0].Config), `"version": "latest"`)
	require.Contains(t, string(d.Resources[0].Args), "9007199254740993")
	require.Equal(t, 3, decode[lifecycle.Deployment](t, b.ok("deployment", "update", id, "--slots", "3", "--wait", patience.String(), "-o", "json")).Slots)

	listed := decode[[]map[string]any](t, b.ok("provisioner", "list", "-o", "json"))
	require.Len(t, listed, 1)
	require.Len(t, listed[0]["configuration"], 32)
	delete(listed[0], "configuration")
	delete(listed[0], "acts_since")
	require.Equal(t, map[string]any{
		"resources_behind": 0., "waiting_configurations": []any{},
		"name": "static-example", "type": "static", "status": "ok", "default": true, "workers": 1., "resources": 1., "slots_total": 4., "slots_used": 3., "largest_placeable": 1.,
		"hosts": []any{map[string]any{"host": g.URL, "slots": 4., "used": 3., "cordoned": false, "healthy": true, "removed": false}},
	}, listed[0])

	require.Equal(t, lifecycle.Stopped, decode[lifecycle.Deployment](t, b.ok("deployment", "stop", id, "--wait", patience.String(), "-o", "json")).State)
	require.Equal(t, lifecycle.Running, decode[lifecycle.Deployment](t, b.ok("deployment", "start", id, "--wait", patience.String(), "-o", "json")).State)
	require.Equal(t, lifecycle.Running, decode[lifecycle.Deployment](t, b.ok("deployment", "restart", id, "--wait", patience.String(), "-o", "json")).State)
	b.ok("deployment", "delete", id, "--wait", patience.String())
	b.ok("deployment", "wait", id, "--for", "deleted")

	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 0, p.wait().ExitStatus(), p.stderr.String())
	require.Zero(t, b.count("SELECT count(*) FROM berth.workers WHERE alive_until > clock_timestamp()"))
	for line := range strings.Lines(p.stderr.String()) {
		require.True(t, json.Valid([]byte(line)), "logs are JSON where nobody looks: %s", line)
	}
}

// A signal lets the running step finish; nothing of it is lost, and nothing is held afterwards.
func TestRunStops(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	b := setup(t).with(pool(t, 4, g.URL))
	b.ok("org", "create", "acme")
	b.ok("project", "create", "acme/web")
	p := start(t, b.env, "run")
	p.line(p.stdout, "ready")
	id := uuid.NewString()
	b.ok("deployment", "create", "acme/web", "--id", id)
	<-g.asked
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	p.line(p.logged, "stopping")
	g.open()
	require.Equal(t, 0, p.wait().ExitStatus(), p.stderr.String())
	require.Equal(t, lifecycle.Running, decode[lifecycle.Deployment](t, b.ok("deployment", "show", id, "-o", "json")).State)
	require.Zero(t, b.count("SELECT count(*) FROM berth.provisioner_resources WHERE leased_by IS NOT NULL"))
	require.Zero(t, b.count("SELECT count(*) FROM berth.workers WHERE alive_until > clock_timestamp()"))
}

// Who is in a hurry sends a second one.
func TestRunSecondSignal(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	b := setup(t).with(pool(t, 4, g.URL))
	b.ok("org", "create", "acme")
	b.ok("project", "create", "acme/web")
	p := start(t, b.env, "run")
	p.line(p.stdout, "ready")
	b.ok("deployment", "create", "acme/web")
	<-g.asked
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	p.line(p.logged, "stopping")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	status := p.wait()
	require.True(t, status.Signaled(), "it did not wait for the step: %v", status)
	require.Equal(t, syscall.SIGTERM, status.Signal())
}

// Being told to stop is no failure, however early.
func TestRunStopsBeforeItBegan(t *testing.T) {
	t.Parallel()
	b := setup(t).with(pool(t, 4, "http://127.0.0.1:1"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := worker(ctx, b.env, "run")
	require.Zero(t, r.status, r.stderr)
	require.Empty(t, r.stdout)
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.Equal(t, exitRefused, b.worker("run").status, "a worker without provisioners has nothing to do")
	b.with(pool(t, 4, "http://127.0.0.1:1"))
	b.exec("INSERT INTO berth.provisioners (name, type, supports, timeout) VALUES ('static-example', 'kubernetes', '{runtime}', '5 minutes')")
	require.Contains(t, b.refused(exitRefused, "run"), `it is of type "kubernetes" with 0 resources and configured as "static"`)
	require.Contains(t, b.refused(exitRefused, "org", "create", "acme"), `"kubernetes"`)
	b.exec("DROP TABLE berth.goose_db_version")
	require.Contains(t, b.refused(exitFailed, "run"), "worker migrate up")
	require.Contains(t, b.refused(exitUsage, "run", "--max-workers", "0"), "--max-workers")
	for _, rate := range []string{"0", "-1", "NaN", "1e9"} {
		require.Contains(t, b.refused(exitUsage, "run", "--rollout-rate="+rate), "--rollout-rate")
	}

	b.env["DATABASE_URL"] = "postgres://u:hunter2@127.0.0.1:1/nowhere"
	r := b.refused(exitFailed, "run")
	require.Contains(t, r, "127.0.0.1:1")
	require.NotContains(t, r, "hunter2")
}

func TestMainStatus(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "deployment", "show", "12")
	require.Contains(t, p.line(p.logged, "worker: "), `"12" is no id`)
	require.Equal(t, exitUsage, p.wait().ExitStatus())
}
