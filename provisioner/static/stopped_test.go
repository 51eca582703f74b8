package static_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"berth/internal/defaults"
	"berth/provisioner"
	"berth/provisioner/static"
)

// stopping makes three hosts, with one resource that was ready on one of them and is stopped.
func stopping(t *testing.T, release bool) (w *world, p *static.Static, net *serving, r *provisioner.Resource, at string, seen provisioner.Observation) {
	t.Helper()
	w, p, net = pool(t, stoppingSpec(release, hostA, hostB, hostC))
	r = w.ready(p, 2)
	at = config(t, r).Host
	seen = w.stop(p, r)
	return w, p, net, r, at, seen
}

func stoppingSpec(release bool, hosts ...string) map[string]any {
	var all []map[string]any
	for _, h := range hosts {
		all = append(all, runtime(h, 4))
	}
	s := spec(all...)
	if release {
		s["release_on_stop"] = true
	}
	return s
}

func other(hosts []string, at string) (rest []string) {
	for _, h := range hosts {
		if h != at {
			rest = append(rest, h)
		}
	}
	return rest
}

var three = []string{hostA, hostB, hostC}

// TestStopIsSaid: what hibernated means here is said, either way.
func TestStopIsSaid(t *testing.T) {
	t.Parallel()
	w, p, _, r, at, seen := stopping(t, false)
	require.Equal(t, "SlotsKept", seen.Reason)
	require.Contains(t, seen.Message, "keeps 2 slots on "+at+", and the instance there is not deleted")
	require.Equal(t, 2, w.used("pool")[at])
	observed, err := p.Observe(t.Context(), []provisioner.Resource{*r})
	require.NoError(t, err)
	require.Equal(t, seen, observed[0])

	w, p, _, r, at, seen = stopping(t, true)
	require.Equal(t, "SlotsReleased", seen.Reason)
	require.Contains(t, seen.Message, "holds no slots")
	require.Zero(t, w.used("pool")[at])
	observed, err = p.Observe(t.Context(), []provisioner.Resource{*r})
	require.NoError(t, err)
	require.Equal(t, seen, observed[0])
}

// TestStartAfterCordon: kept slots are used where they are; released ones are taken elsewhere.
func TestStartAfterCordon(t *testing.T) {
	t.Parallel()
	for _, release := range []bool{false, true} {
		w, p, _, r, at, _ := stopping(t, release)
		w.cordon(at, true)
		w.settle(p, r)
		if release {
			require.Contains(t, other(three, at), config(t, r).Host, "it came back to a cordoned host")
		} else {
			require.Equal(t, at, config(t, r).Host, "a cordon stops a restart")
		}
		w.stop(p, r)
		w.remove(p, r)
		require.Equal(t, map[string]int{hostA: 0, hostB: 0, hostC: 0}, w.used("pool"))
	}
}

// TestStartWhenDead: it is not moved from where its data may be, and each try says what is wrong; with its slots released it
// starts elsewhere.
func TestStartWhenDead(t *testing.T) {
	t.Parallel()
	for _, release := range []bool{false, true} {
		for _, how := range []string{"refused", "hangs"} {
			w := newWorld(t, "pool")
			hosts := map[string]*stub{}
			var urls []string
			for range 3 {
				s := newStub(t)
				hosts[s.url] = s
				urls = append(urls, s.url)
			}
			p := w.open("pool", stoppingSpec(release, urls...))
			require.NoError(t, p.Activate(t.Context()))
			r := w.ready(p, 2)
			at := config(t, r).Host
			w.stop(p, r)
			want := "connection refused"
			if how == "hangs" {
				want = "no answer within 300ms"
				hosts[at].set(hang)
			} else {
				hosts[at].close()
			}
			// another one finds out, and closes the host
			probe := w.wasReadyOn(at)
			for range defaults.PingFailures {
				_, _ = w.drive(p, probe)
			}
			if release {
				w.settle(p, r)
				require.NotEqual(t, at, config(t, r).Host, how)
			} else {
				for range 3 {
					seen, err := w.drive(p, r)
					require.ErrorContains(t, err, at+": ", how)
					require.ErrorContains(t, err, want, how)
					require.NotErrorIs(t, err, provisioner.ErrNoCapacity, "waited for without end")
					require.Equal(t, provisioner.PhaseUnknown, seen.Phase)
					require.Equal(t, at, config(t, r).Host)
				}
			}
			w.remove(p, r)
			w.remove(p, probe)
			for h, n := range w.used("pool") {
				require.Zero(t, n, h)
			}
		}
	}
}

// wasReadyOn lists a resource that holds a slot of a certain host and was ready there.
func (w *world) wasReadyOn(host string) *provisioner.Resource {
	w.t.Helper()
	key, err := static.HostKey(host)
	require.NoError(w.t, err)
	r := resource(1)
	w.claim("pool", r)
	w.exec(`INSERT INTO berth.static_slots (resource_id, provisioner, host, slots, wanted) VALUES ($1, 'pool', $2, 1, 1)`, r.ID, key)
	r.State = provisioner.Encode(map[string]string{"ready_on": key})
	return r
}

// TestStartAfterRemoval: a host that left the configuration keeps what it has.
func TestStartAfterRemoval(t *testing.T) {
	t.Parallel()
	for _, release := range []bool{false, true} {
		w, _, _, r, at, _ := stopping(t, release)
		p := w.openVia(w.store, &serving{}, "pool", stoppingSpec(release, other(three, at)...))
		require.NoError(t, p.Activate(t.Context()))
		w.settle(p, r)
		require.Equal(t, release, at != config(t, r).Host)
		w.remove(p, r)
		for h, n := range w.used("pool") {
			require.Zero(t, n, h)
		}
	}
}

// TestCordonWhileRunning: a cordon stops new placements and growth, not what is there.
func TestCordonWhileRunning(t *testing.T) {
	t.Parallel()
	w, p, _ := pool(t, stoppingSpec(false, hostA))
	r := w.ready(p, 2)
	w.cordon("HTTP://A.example.com:8081/", true)
	w.stop(p, r)
	w.settle(p, r)
	r.Args = args(3)
	require.Contains(t, w.waits(p, r), hostA+": cordoned")
	w.holds(map[*provisioner.Resource]int{r: 2})
	r.Args = args(1)
	w.settle(p, r)
	w.holds(map[*provisioner.Resource]int{r: 1})
	w.waits(p, resource(1))
	r.Args = args(3)
	w.waits(p, r)
	w.cordon(hostA, false)
	w.settle(p, r)
	require.Equal(t, 3, config(t, r).Slots)
	require.Error(t, w.store.Cordon(t.Context(), "pool", hostB, true))
	require.Error(t, w.store.Cordon(t.Context(), "pool", "b", true))
}
