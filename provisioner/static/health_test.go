package static_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"berth/internal/defaults"
	"berth/provisioner"
	"berth/provisioner/static"
)

const hostA, hostB, hostC = "http://a.example.com:8081", "http://b.example.com:8081", "http://c.example.com:8081"

// pool is a world with one pool whose hosts answer through serving.
func pool(t *testing.T, s map[string]any) (*world, *static.Static, *serving) {
	t.Helper()
	w, net := newWorld(t, "pool"), &serving{}
	p := w.openVia(w.store, net, "pool", s)
	require.NoError(t, p.Activate(t.Context()))
	return w, p, net
}

// drive claims and reconciles, as a run of the engine.
func (w *world) drive(p *static.Static, r *provisioner.Resource) (provisioner.Observation, error) {
	w.claim("pool", r)
	return p.Reconcile(context.Background(), r)
}

// ready drives a new resource of so many slots until it is ready.
func (w *world) ready(p *static.Static, slots int) *provisioner.Resource {
	w.t.Helper()
	r := resource(slots)
	w.settle(p, r)
	return r
}

func (w *world) settle(p *static.Static, r *provisioner.Resource) {
	w.t.Helper()
	seen, err := w.drive(p, r)
	require.NoError(w.t, err)
	require.Equal(w.t, provisioner.PhaseReady, seen.Phase)
}

func (w *world) stop(p *static.Static, r *provisioner.Resource) provisioner.Observation {
	w.t.Helper()
	w.claim("pool", r)
	seen, err := p.Hibernate(context.Background(), r)
	require.NoError(w.t, err)
	require.Equal(w.t, provisioner.PhaseHibernated, seen.Phase)
	return seen
}

func (w *world) remove(p *static.Static, r *provisioner.Resource) {
	w.t.Helper()
	w.claim("pool", r)
	seen, err := p.Deprovision(context.Background(), r)
	require.NoError(w.t, err)
	require.Equal(w.t, provisioner.PhaseAbsent, seen.Phase)
}

func (w *world) cordon(host string, closed bool) {
	w.t.Helper()
	require.NoError(w.t, w.store.Cordon(context.Background(), "pool", host, closed))
}

// TestNeverReadyMoves: three failures close a host, and what was never ready there takes another.
func TestNeverReadyMoves(t *testing.T) {
	t.Parallel()
	w, p, net := pool(t, map[string]any{"strategy": "pack", "runtimes": []map[string]any{runtime(hostA, 4), runtime(hostB, 8)}})
	net.set("a.example.com:8081", true)
	r := resource(2)
	for range defaults.PingFailures {
		seen, err := w.drive(p, r)
		require.ErrorContains(t, err, hostA+": ")
		require.Equal(t, provisioner.PhasePending, seen.Phase)
		require.Equal(t, map[string]int{hostA: 2, hostB: 0}, w.used("pool"))
	}
	w.settle(p, r)
	require.Equal(t, hostB, config(t, r).Host)
	require.Equal(t, map[string]int{hostA: 0, hostB: 2}, w.used("pool"))
}

// TestNeverReadyWaits: with no other host it waits, holds nothing, and says why; the host that answers again takes it.
func TestNeverReadyWaits(t *testing.T) {
	t.Parallel()
	w, p, net := pool(t, spec(runtime(hostA, 4)))
	net.set("a.example.com:8081", true)
	r := resource(2)
	for range defaults.PingFailures {
		_, err := w.drive(p, r)
		require.Error(t, err)
	}
	seen, err := w.drive(p, r)
	require.ErrorIs(t, err, provisioner.ErrNoCapacity)
	require.Equal(t, "NoCapacity", seen.Reason)
	require.ErrorContains(t, err, hostA+": unhealthy since 20")
	require.Equal(t, map[string]int{hostA: 0}, w.used("pool"))

	woken := w.watch(p)
	net.set("a.example.com:8081", false)
	require.Equal(t, r.ID, <-woken, "the host that answers again is found, and who waited is woken")
	w.settle(p, r)
}

// TestOnceReadyStays: a host that stops answering keeps what was ready there. It is not known to be gone.
func TestOnceReadyStays(t *testing.T) {
	t.Parallel()
	w, p, net := pool(t, spec(runtime(hostA, 4), runtime(hostB, 4)))
	r := w.ready(p, 2)
	at := config(t, r).Host
	net.set(at[len("http://"):], true)
	for range 2 * defaults.PingFailures {
		seen, err := w.drive(p, r)
		require.ErrorContains(t, err, at+": ")
		for _, class := range []error{provisioner.ErrInvalid, provisioner.ErrNoCapacity, provisioner.ErrUnavailable} {
			require.NotErrorIs(t, err, class)
		}
		require.Equal(t, provisioner.PhaseUnknown, seen.Phase)
		require.Equal(t, "PingFailed", seen.Reason)
		require.Equal(t, at, config(t, r).Host)
		observed, err := p.Observe(t.Context(), []provisioner.Resource{*r})
		require.NoError(t, err)
		require.Equal(t, provisioner.PhaseUnknown, observed[0].Phase)
		require.Equal(t, "PingFailed", observed[0].Reason)
	}
	c, err := p.Check(t.Context())
	require.NoError(t, err)
	require.Len(t, c.Problems, 1)
	require.Contains(t, c.Problems[0], at+": ")

	for _, size := range []int{3, 1} { // growth waits, less is given at once, and neither moves it
		r.Args = args(size)
		_, err := w.drive(p, r)
		require.ErrorContains(t, err, at+": ")
		require.Equal(t, at, config(t, r).Host)
		require.Equal(t, min(size, 2), config(t, r).Slots)
	}
	other := w.ready(p, 1)
	require.NotEqual(t, at, config(t, other).Host, "a closed host takes a new one")
	net.set(at[len("http://"):], false)
	w.settle(p, r)
	require.Equal(t, at, config(t, r).Host)
}

// TestHealthCounts: failures count in a row, and one success forgets them.
func TestHealthCounts(t *testing.T) {
	t.Parallel()
	w, p, net := pool(t, spec(runtime(hostA, 4)))
	r := w.ready(p, 1)
	ping := func(down bool) static.Runtime {
		net.set("a.example.com:8081", down)
		_, err := w.drive(p, r)
		require.Equal(t, down, err != nil)
		hosts, err := w.store.Runtimes(t.Context(), static.Pool{Name: "pool"})
		require.NoError(t, err)
		return hosts[0]
	}
	for i := 1; i < defaults.PingFailures; i++ {
		h := ping(true)
		require.Equal(t, i, h.FailedPings)
		require.Zero(t, h.UnhealthySince)
	}
	require.Zero(t, ping(false).FailedPings)
	for range defaults.PingFailures - 1 {
		require.Zero(t, ping(true).UnhealthySince)
	}
	since := ping(true).UnhealthySince
	require.NotZero(t, since)
	require.Equal(t, since, ping(true).UnhealthySince, "closed is closed: it is not written again")
	h := ping(false)
	require.Zero(t, h.UnhealthySince)
	require.Zero(t, h.FailedPings)
}

// watch runs Watch until the test ends and returns what it reports.
func (w *world) watch(p *static.Static) <-chan uuid.UUID {
	woken := make(chan uuid.UUID, 1000)
	ctx, cancel := context.WithCancel(context.Background())
	var under sync.WaitGroup
	under.Go(func() {
		if err := p.Watch(ctx, func(id uuid.UUID) { woken <- id }); err != nil {
			w.t.Errorf("Watch: %v", err)
		}
	})
	w.t.Cleanup(func() { cancel(); under.Wait() })
	return woken
}

// TestWatchWakes: who waits is woken when room appears, whoever makes it: this process, another one, or a person.
func TestWatchWakes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		room   func(w *world, p *static.Static, holder *provisioner.Resource)
	}{
		"Released here": {"a delete in this process", func(w *world, p *static.Static, holder *provisioner.Resource) { w.remove(p, holder) }},
		"Released elsewhere": {"a delete in a process that watches nothing", func(w *world, _ *static.Static, holder *provisioner.Resource) {
			w.remove(w.openVia(w.store, &serving{}, "pool", spec(runtime(hostA, 4), runtime(hostB, 4))), holder)
		}},
		"Uncordoned": {"a host that is opened", func(w *world, _ *static.Static, _ *provisioner.Resource) { w.cordon(hostB, false) }},
		"Larger": {"a configuration with more slots", func(w *world, p *static.Static, _ *provisioner.Resource) {
			require.NoError(w.t, w.openVia(w.store, &serving{}, "pool", spec(runtime(hostA, 8), runtime(hostB, 4))).Activate(w.t.Context()))
		}},
		"By hand": {"a row that a person deletes", func(w *world, _ *static.Static, holder *provisioner.Resource) {
			w.exec(`DELETE FROM berth.static_slots WHERE resource_id = $1`, holder.ID)
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, p, _ := pool(t, spec(runtime(hostA, 4), runtime(hostB, 4)))
			w.cordon(hostB, true)
			holder, waiter := w.ready(p, 4), resource(3)
			_, err := w.drive(p, waiter)
			require.ErrorIs(t, err, provisioner.ErrNoCapacity)
			// what the engine would store
			w.exec(`UPDATE berth.provisioner_resources SET reason = 'NoCapacity' WHERE id = $1`, waiter.ID)
			woken := w.watch(p)
			tc.room(w, p, holder)
			select {
			case id := <-woken:
				require.Equal(t, waiter.ID, id, tc.reason)
			case <-time.After(20 * time.Second):
				t.Fatalf("nobody is woken: %s", tc.reason)
			}
			w.settle(p, waiter)
		})
	}
}
