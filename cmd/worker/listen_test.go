package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"berth/internal/health"
)

// listening starts a worker that answers on a free port, and returns where.
func listening(t *testing.T, env map[string]string, args ...string) (p *process, url string) {
	t.Helper()
	p = start(t, env, append([]string{"run", "--listen", "127.0.0.1:0"}, args...)...)
	var line struct{ Address string }
	require.NoError(t, json.Unmarshal([]byte(p.line(p.logged, "health and metrics are served")), &line))
	p.line(p.stdout, "ready")
	return p, "http://" + line.Address
}

// get returns an answer of a worker.
func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	a, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	require.NoError(t, err)
	text, err := io.ReadAll(a.Body)
	require.NoError(t, err)
	require.NoError(t, a.Body.Close())
	return a.StatusCode, string(text)
}

// value is that of one line of metrics.
func value(t *testing.T, metrics, name string) float64 {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(metrics)
	require.NotNil(t, m, "no %s in %s", name, metrics)
	v, err := strconv.ParseFloat(m[1], 64)
	require.NoError(t, err)
	return v
}

// A worker is ready while it takes jobs, and not from the signal on: before its work stops, and while a step still runs.
func TestRunHealth(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	b := setup(t).with(pool(t, 4, g.URL))
	b.ok("org", "create", "acme")
	b.ok("project", "create", "acme/web")
	p, url := listening(t, b.env)
	require.Equal(t, "ready\n", b.ok("healthcheck", "--url", url+"/readyz"))

	id := uuid.NewString()
	b.ok("deployment", "create", "acme/web", "--id", id, "--slots", "3")
	<-g.asked
	status, metrics := get(t, url+"/metrics")
	require.Equal(t, http.StatusOK, status)
	require.InDelta(t, 1, value(t, metrics, `berth_unsettled_places{provisioner="static-example"}`), 0)
	require.InDelta(t, 3, value(t, metrics, `berth_slots{provisioner="static-example",state="used"}`), 0)
	require.InDelta(t, 1, value(t, metrics, `berth_slots{provisioner="static-example",state="free"}`), 0)
	require.InDelta(t, 0, value(t, metrics, `berth_breaker_open{provisioner="static-example"}`), 0)
	require.InDelta(t, 0, value(t, metrics, `berth_leases_lost_total`), 0)
	require.InDelta(t, 0, value(t, metrics, `berth_scrape_error`), 0)
	require.Contains(t, metrics, `berth_build_info{`)
	for _, secret := range []string{b.db.URL, id, g.URL} {
		require.NotContains(t, metrics, secret)
	}

	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	p.line(p.logged, "stopping")
	status, body := get(t, url+"/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.JSONEq(t, `{"ready": false, "failed": [{"check": "worker", "reason": "it is stopping"}]}`, body)
	require.Contains(t, b.refused(exitFailed, "healthcheck", "--url", url+"/readyz"), "it is stopping")
	status, body = get(t, url+"/livez")
	require.Equal(t, http.StatusOK, status, "it lives while it stops")
	require.Equal(t, "ok\n", body)

	g.open()
	require.Equal(t, 0, p.wait().ExitStatus(), p.stderr.String())
	require.Equal(t, 1, b.count("SELECT count(*) FROM berth.deployments WHERE state = 'running'"), "the step was not cut off")
	require.Contains(t, b.refused(exitFailed, "healthcheck", "--url", url+"/readyz"), "connection refused")
}

// What a worker counts is what it did.
func TestRunCounts(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.open()
	b := setup(t).with(pool(t, 10, g.URL))
	b.ok("org", "create", "acme")
	b.ok("project", "create", "acme/web")
	p, url := listening(t, b.env)
	for range 3 {
		id := uuid.NewString()
		b.ok("deployment", "create", "acme/web", "--id", id, "--wait", patience.String())
		b.ok("deployment", "stop", id, "--wait", patience.String())
	}
	require.Eventually(t, func() bool { return b.count(`SELECT count(*) FROM berth.river_job WHERE state <> 'completed'`) == 0 }, patience, 10*time.Millisecond)
	_, metrics := get(t, url+"/metrics")
	for _, kind := range []string{"provision_resource", "hibernate_resource"} {
		done := b.count(`SELECT count(*) FROM berth.river_job WHERE state = 'completed' AND kind = $1`, kind)
		require.Positive(t, done)
		require.InDelta(t, done, value(t, metrics, `berth_jobs_total{kind="`+kind+`",outcome="completed"}`), 0)
		require.InDelta(t, done, value(t, metrics, `berth_job_duration_seconds_count{kind="`+kind+`"}`), 0)
	}
	require.NotContains(t, metrics, `outcome="failed"`)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 0, p.wait().ExitStatus(), p.stderr.String())
}

// A port that is taken is told before anything is changed, and another one is for a second worker.
func TestRunPortIsTaken(t *testing.T) {
	t.Parallel()
	b := setup(t).with(pool(t, 4, "http://127.0.0.1:1"))
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	taken := l.Addr().String()
	said := b.refused(exitFailed, "run", "--listen", taken)
	require.Equal(t, "worker: --listen "+taken+": another process listens there, another worker perhaps: give another port, or --listen '' for none\n", said)
	require.Zero(t, b.count("SELECT count(*) FROM berth.provisioners"))
	require.Zero(t, b.count("SELECT count(*) FROM berth.workers"))
	require.NoError(t, l.Close())

	for _, at := range []string{"8080", "127.0.0.1", "127.0.0.1:http-ish", ":70000"} {
		require.Contains(t, b.refused(exitUsage, "run", "--listen", at), "--listen: "+strconv.Quote(at))
	}
	require.Contains(t, b.refused(exitFailed, "run", "--listen", "192.0.2.1:8080"), "no address of this machine")
	require.Contains(t, b.refused(exitFailed, "run", "--listen", "nowhere.invalid:8080"), "there is no such host")
}

// Two workers on one machine, and a third that is not to be heard.
func TestRunTwo(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.open()
	b := setup(t).with(pool(t, 4, g.URL))
	b.ok("migrate", "up")
	one, first := listening(t, b.env)
	two, second := listening(t, b.env)
	three := start(t, b.env, "run")
	three.line(three.stdout, "ready")
	for _, url := range []string{first, second} {
		b.ok("healthcheck", "--url", url+"/readyz")
	}
	for _, p := range []*process{one, two, three} {
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	}
	for _, p := range []*process{one, two, three} {
		require.Equal(t, 0, p.wait().ExitStatus(), p.stderr.String())
	}
	require.NotContains(t, three.stderr.String(), "are served")
}

// What a probe says of what it finds.
func TestHealthcheck(t *testing.T) {
	t.Parallel()
	at := func(status int, body string) string {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		})}
		go func() { _ = s.Serve(l) }()
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return "http://" + l.Addr().String() + "/readyz"
	}
	b := &testBundle{t: t, env: map[string]string{}}
	failed, err := json.Marshal(health.Readiness{Failed: []health.Failed{{Check: "clock", Reason: "it stands"}, {Check: "queue", Reason: "it too\nstands"}}})
	require.NoError(t, err)
	require.Equal(t, "ready\n", b.ok("healthcheck", "--url", at(http.StatusOK, `{"ready": true, "failed": []}`)))
	require.Contains(t, b.refused(exitFailed, "healthcheck", "--url", at(http.StatusServiceUnavailable, string(failed))), "clock: it stands; queue: it too stands")
	for _, other := range []string{at(http.StatusOK, "hello"), at(http.StatusOK, `{}`), at(http.StatusNotFound, "404"), at(http.StatusFound, "")} {
		require.Contains(t, b.refused(exitFailed, "healthcheck", "--url", other), "see that --url is where worker run listens")
	}
	for _, none := range []string{"", "127.0.0.1:8080", "ftp://127.0.0.1/"} {
		require.Contains(t, b.refused(exitUsage, "healthcheck", "--url", none), "--url")
	}
	said := b.refused(exitUsage, "healthcheck", "--url", "ftp://u:hunter2@127.0.0.1/")
	require.False(t, strings.Contains(said, "hunter2"), said)
}
