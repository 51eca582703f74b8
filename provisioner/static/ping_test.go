package static_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/provisioner"
	"berth/provisioner/static"
)

// TestPing: only 200 is ready, and everything else is explained and passes.
func TestPing(t *testing.T) {
	t.Parallel()
	elsewhere := newStub(t)
	tests := map[string]struct {
		reason string
		answer func(http.ResponseWriter, *http.Request)
		want   string // of the error, after the host; empty: ready
	}{
		"OK":       {"it serves", status(200), ""},
		"Body":     {"what it says does not matter, nor how much", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 8<<20)) }, ""},
		"NotFound": {"an ingress without a runtime behind it", status(404), "ping answered 404"},
		"Broken":   {"it is there and does not serve", status(500), "ping answered 500"},
		"Created":  {"200 alone means ready", status(204), "ping answered 204"},
		"Hangs":    {"it accepts and says nothing", hang, "no answer within 300ms"},
		"Redirect": {"whoever it sends us to is not the runtime", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.url+"/v1/ping", http.StatusFound)
		}, "ping answered 302"},
		"Cut": {"it breaks off", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		"Header": {"headers without end", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) },
			"server response headers exceeded"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "pool")
			host := newStub(t)
			host.set(tc.answer)
			p := w.open("pool", spec(runtime(host.url, 8)))
			require.NoError(t, p.Activate(t.Context()))
			r := resource(2)
			w.claim("pool", r)
			seen, err := p.Reconcile(t.Context(), r)
			require.Equal(t, host.url, config(t, r).Host, "the place is known either way")
			if tc.want == "" {
				require.NoError(t, err, tc.reason)
				require.Equal(t, provisioner.PhaseReady, seen.Phase, tc.reason)
				return
			}
			require.ErrorContains(t, err, host.url+": ", tc.reason)
			require.ErrorContains(t, err, tc.want, tc.reason)
			for _, class := range []error{provisioner.ErrInvalid, provisioner.ErrNoCapacity, provisioner.ErrUnavailable} {
				require.NotErrorIs(t, err, class, tc.reason)
			}
			require.Equal(t, provisioner.PhasePending, seen.Phase, tc.reason)
			require.Equal(t, "PingFailed", seen.Reason, tc.reason)
			require.Equal(t, map[string]int{host.url: 2}, w.used("pool"), "a failed ping gives nothing back")
		})
	}
	require.Zero(t, elsewhere.pings.Load(), "a redirect was followed")
}

// TestPingRefused: nobody listens.
func TestPingRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "pool")
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	p := w.open("pool", spec(runtime(server.URL, 8)))
	require.NoError(t, p.Activate(t.Context()))
	r := resource(1)
	w.claim("pool", r)
	_, err := p.Reconcile(t.Context(), r)
	require.ErrorContains(t, err, server.URL+": ")
	require.ErrorContains(t, err, "connection refused")
}

// TestPingsAreShared: many that ask at once are few requests, and nobody gets an answer that is older than its question.
func TestPingsAreShared(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "pool")
	host := newStub(t)
	p := w.open("pool", spec(runtime(host.url, 1000)))
	require.NoError(t, p.Activate(t.Context()))
	rs := make([]*provisioner.Resource, 40)
	for i := range rs {
		rs[i] = resource(1)
		w.claim("pool", rs[i])
		_, err := p.Reconcile(t.Context(), rs[i])
		require.NoError(t, err)
	}
	before := host.pings.Load()

	asked, answer := make(chan struct{}), make(chan struct{})
	var once sync.Once
	host.set(func(w http.ResponseWriter, _ *http.Request) {
		once.Do(func() { close(asked) })
		<-answer
		w.WriteHeader(http.StatusOK)
	})
	var all sync.WaitGroup
	ask := func(r *provisioner.Resource) {
		all.Go(func() {
			if seen, err := p.Reconcile(t.Context(), r); err != nil || seen.Phase != provisioner.PhaseReady {
				t.Errorf("Reconcile: %v, %v", seen, err)
			}
		})
	}
	ask(rs[0])
	<-asked // this question is under way: whoever asks from now on gets the answer of the next one
	host.set(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	for _, r := range rs[1:] {
		ask(r)
	}
	close(answer)
	all.Wait()
	sent := host.pings.Load() - before
	require.GreaterOrEqual(t, sent, int64(2), "those who asked later got the answer of an earlier question")
	require.Less(t, sent, int64(len(rs)), "every one of them sent a request of its own")
}

// TestPingOfOneHostHoldsUpNoOther: a host that hangs costs those on other hosts nothing.
func TestPingOfOneHostHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "pool")
	good, bad := newStub(t), newStub(t)
	bad.set(hang)
	p := w.openSlow("pool", map[string]any{"strategy": "pack", "runtimes": []map[string]any{runtime(bad.url, 1), runtime(good.url, 8)}})
	require.NoError(t, p.Activate(t.Context()))
	stuck, other := resource(1), resource(1)
	w.claim("pool", stuck)
	w.claim("pool", other)

	ctx, cancel := context.WithCancel(t.Context())
	var under sync.WaitGroup
	under.Go(func() {
		seen, err := p.Reconcile(ctx, stuck)
		if err == nil || seen.Phase == provisioner.PhaseReady {
			t.Errorf("a host that says nothing is ready: %v", seen)
		}
	})
	eventually(t, "the host that hangs is asked", func() bool { return bad.pings.Load() > 0 })
	seen, err := p.Reconcile(t.Context(), other)
	require.NoError(t, err)
	require.Equal(t, provisioner.PhaseReady, seen.Phase)
	require.Equal(t, good.url, config(t, other).Host)
	cancel() // a caller that gives up is let go at once
	under.Wait()
}

// openSlow makes a provisioner whose pings have all the time that a test may take.
func (w *world) openSlow(name string, s map[string]any) *static.Static {
	return w.openTimed(w.store, nil, name, s, time.Minute, time.Minute, time.Minute)
}
