package static_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"berth/provisioner"
	"berth/provisioner/static"
)

// waits drives a resource that has to wait.
func (w *world) waits(p *static.Static, r *provisioner.Resource) string {
	w.t.Helper()
	seen, err := w.drive(p, r)
	require.ErrorIs(w.t, err, provisioner.ErrNoCapacity)
	require.Equal(w.t, "NoCapacity", seen.Reason)
	return err.Error()
}

// holds compares the slots that resources hold.
func (w *world) holds(want map[*provisioner.Resource]int) {
	w.t.Helper()
	for r, n := range want {
		held := 0
		for _, line := range w.inspect("pool", r.ID) {
			_, err := fmt.Sscanf(line, "%d slots", &held)
			require.NoError(w.t, err)
		}
		require.Equal(w.t, n, held, "slots of %s", r.ID)
	}
}

// TestOrderOfArrival: nobody overtakes, so a large request is not starved by small ones.
func TestOrderOfArrival(t *testing.T) {
	t.Parallel()
	w, p, _ := pool(t, spec(runtime(hostA, 10)))
	first, second := w.ready(p, 5), w.ready(p, 5)
	large, small, later := resource(8), resource(1), resource(1)
	w.waits(p, large)
	w.waits(p, small)
	w.remove(p, first)
	w.holds(map[*provisioner.Resource]int{large: 0, small: 0})
	w.waits(p, later) // there is room for it, and it is another's
	w.waits(p, large)
	w.remove(p, second)
	w.holds(map[*provisioner.Resource]int{large: 8, small: 1, later: 1})
	w.settle(p, large)
}

// TestGivingUpATurn: who stops, goes, or wants what can never be, holds up nobody any more.
func TestGivingUpATurn(t *testing.T) {
	t.Parallel()
	tests := map[string]func(w *world, p *static.Static, r *provisioner.Resource){
		"Stops":   func(w *world, p *static.Static, r *provisioner.Resource) { w.stop(p, r) },
		"Deleted": func(w *world, p *static.Static, r *provisioner.Resource) { w.remove(p, r) },
		"Never fits": func(w *world, p *static.Static, r *provisioner.Resource) {
			r.Args = args(11)
			seen, err := w.drive(p, r)
			require.ErrorIs(w.t, err, provisioner.ErrInvalid)
			require.Equal(w.t, "NeverFits", seen.Reason)
		},
		"Invalid": func(w *world, p *static.Static, r *provisioner.Resource) {
			r.Args = args(-1)
			_, err := w.drive(p, r)
			require.ErrorIs(w.t, err, provisioner.ErrInvalid)
		},
		"Wants less": func(w *world, p *static.Static, r *provisioner.Resource) {
			r.Args = args(1)
			w.settle(p, r)
		},
	}
	for name, give := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, grows := range []bool{false, true} {
				w, p, _ := pool(t, spec(runtime(hostA, 10)))
				large, small := resource(10), resource(2)
				w.ready(p, 7)
				if grows {
					large = w.ready(p, 1)
					large.Args = args(10)
				}
				w.waits(p, large)
				w.waits(p, small)
				give(w, p, large)
				w.holds(map[*provisioner.Resource]int{small: 2})
				w.settle(p, small)
			}
		})
	}
}

// TestKeepsWhatItCouldUse: who waits keeps only hosts that it could use.
func TestKeepsWhatItCouldUse(t *testing.T) {
	t.Parallel()
	w, p, _ := pool(t, map[string]any{"strategy": "pack", "runtimes": []map[string]any{runtime(hostA, 10), runtime(hostB, 4), runtime(hostC, 20)}})
	w.cordon(hostC, true)
	filler := w.ready(p, 8)
	require.Equal(t, hostA, config(t, filler).Host)
	w.waits(p, resource(15)) // fits c alone, which is closed: holds up nobody
	middle := resource(6)
	w.waits(p, middle) // fits a, once there is room
	small := w.ready(p, 2)
	require.Equal(t, hostB, config(t, small).Host, "a host that is kept for another was used")
	grower := w.ready(p, 1)
	require.Equal(t, hostB, config(t, grower).Host)
	grower.Args = args(4)
	w.waits(p, grower) // its own host, once there is room
	w.waits(p, resource(1))
	w.remove(p, filler)
	w.settle(p, middle)
	require.Equal(t, hostA, config(t, middle).Host)
}

// TestChangedItsMind: who waits and asks for another number keeps its turn.
func TestChangedItsMind(t *testing.T) {
	t.Parallel()
	w, p, _ := pool(t, spec(runtime(hostA, 10)))
	filler, first, second := w.ready(p, 10), resource(4), resource(8)
	w.waits(p, first)
	w.waits(p, second)
	first.Args = args(9)
	w.waits(p, first)
	w.remove(p, filler)
	w.holds(map[*provisioner.Resource]int{first: 9, second: 0})
	w.settle(p, first)
}

// TestResize: in place where there is room, else what is held is kept and said to wait, and growth comes with the room.
func TestResize(t *testing.T) {
	t.Parallel()
	w, p, _ := pool(t, map[string]any{"strategy": "pack", "runtimes": []map[string]any{runtime(hostA, 8), runtime(hostB, 20)}})
	r, filler := w.ready(p, 2), w.ready(p, 4)
	before := string(r.Config)
	r.Args = args(6)
	require.Contains(t, w.waits(p, r), "keeps 2 slots and waits for 6 on "+hostA+": 2 of 8 free")
	require.Equal(t, before, string(r.Config), "a config that is not true")
	seen, err := p.Observe(t.Context(), []provisioner.Resource{*r})
	require.NoError(t, err)
	require.Equal(t, provisioner.PhaseReady, seen[0].Phase)
	require.Equal(t, []string{"slots"}, seen[0].Drift)

	woken := w.watch(p)
	w.exec(`UPDATE berth.provisioner_resources SET reason = 'NoCapacity' WHERE id = $1`, r.ID)
	w.remove(p, filler)
	require.Equal(t, r.ID, <-woken)
	w.settle(p, r)
	require.Equal(t, 6, config(t, r).Slots)
	require.Equal(t, int64(6*40e9), config(t, r).StorageBytes)

	r.Args = args(12) // fits another host, but it stays where it is
	w.waits(p, r)
	w.holds(map[*provisioner.Resource]int{r: 6})
	r.Args = args(21)
	got, err := w.drive(p, r)
	require.ErrorIs(t, err, provisioner.ErrInvalid)
	require.Equal(t, provisioner.PhaseReady, got.Phase, "it serves, as large as it was")
	require.Equal(t, "NeverFits", got.Reason)
	r.Args = args(1)
	w.settle(p, r)
	w.holds(map[*provisioner.Resource]int{r: 1})
}

// TestNeverFits: larger than every listed host is invalid at once, and valid when a larger one is listed.
func TestNeverFits(t *testing.T) {
	t.Parallel()
	w, p, _ := pool(t, spec(runtime(hostA, 4), runtime(hostB, 8)))
	w.cordon(hostB, true)
	r := resource(9)
	seen, err := w.drive(p, r)
	require.ErrorIs(t, err, provisioner.ErrInvalid)
	require.ErrorContains(t, err, "9 slots fit no runtime of pool, the largest has 8")
	require.Equal(t, "NeverFits", seen.Reason)
	r.Args = args(8)
	require.Contains(t, w.waits(p, r), hostB+": cordoned", "a cordoned host is listed: it waits")

	require.NoError(t, w.openVia(w.store, &serving{}, "pool", spec(runtime(hostA, 4), runtime(hostC, 16))).Activate(t.Context()))
	r.Args = args(9)
	w.settle(p, r)
	require.Equal(t, hostC, config(t, r).Host)
}

// TestNothingListed: a pool whose configuration is not in force yet is no reason to give up.
func TestNothingListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "pool")
	p := w.openVia(w.store, &serving{}, "pool", spec(runtime(hostA, 4)))
	_, err := w.drive(p, resource(1))
	require.ErrorContains(t, err, "no runtime is listed yet")
	require.NotErrorIs(t, err, provisioner.ErrInvalid)
	require.NotErrorIs(t, err, provisioner.ErrNoCapacity)
}

// TestExplainIsBounded: hundreds of hosts are told in a few words.
func TestExplainIsBounded(t *testing.T) {
	t.Parallel()
	var runtimes []map[string]any
	for i := range 300 {
		runtimes = append(runtimes, runtime(fmt.Sprintf("http://host-%03d.%s.example.com:8081", i, strings.Repeat("x", 50)), 1))
	}
	w, p, _ := pool(t, spec(runtimes...))
	w.exec(`UPDATE berth.static_runtimes SET cordoned_at = now() WHERE host < 'http://host-100'`)
	w.exec(`UPDATE berth.static_runtimes SET unhealthy_since = now() WHERE host >= 'http://host-100'`)
	why := w.waits(p, resource(1))
	require.Less(t, len(why), 2048)
	require.Contains(t, why, "no room for 1 slot in pool")
	require.Contains(t, why, "host-000")
	require.Contains(t, why, "and more: 90 cordoned, 200 unhealthy")
}

// TestHostsChange: what left the configuration keeps what it has and takes no more; slots may go below what is used.
func TestHostsChange(t *testing.T) {
	t.Parallel()
	w, p, _ := pool(t, spec(runtime(hostA, 8)))
	r := w.ready(p, 6)
	redeclare := func(s map[string]any) *static.Static {
		next := w.openVia(w.store, &serving{}, "pool", s)
		require.NoError(t, next.Activate(t.Context()))
		return next
	}
	p = redeclare(spec(runtime(hostA, 3)))
	w.settle(p, r)
	require.Equal(t, 6, config(t, r).Slots)
	c, err := p.Check(t.Context())
	require.NoError(t, err)
	require.Contains(t, c.Problems, hostA+": holds 6 of 3 slots")
	waiter := resource(1)
	w.waits(p, waiter)

	p = redeclare(spec(runtime(hostB, 4)))
	w.holds(map[*provisioner.Resource]int{waiter: 1})
	w.remove(p, waiter)
	w.settle(p, r)
	require.Equal(t, hostA, config(t, r).Host)
	require.Equal(t, "/mnt/data", config(t, r).DataDir)
	r.Args = args(7)
	_, err = w.drive(p, r)
	require.ErrorIs(t, err, provisioner.ErrInvalid, "no listed host has 7")
	r.Args = args(4)
	w.settle(p, r)
	c, err = p.Check(t.Context())
	require.NoError(t, err)
	require.Contains(t, c.Problems, hostA+": no longer listed, and still holds 4 slots")
	require.Equal(t, 4, *c.Slots, "the slots of a host that is not listed are no room")

	p = redeclare(spec(map[string]any{"host": "HTTP://A.example.com:8081/", "slots": 16, "audience_url": "https://aud.example.com"}))
	r.Args = args(16)
	w.settle(p, r)
	require.Equal(t, "HTTP://A.example.com:8081/", config(t, r).Host, "as configured")
	require.Equal(t, "https://aud.example.com", config(t, r).Audience)
	require.NoError(t, p.Activate(t.Context()), "repeat-safe")
	w.remove(p, r)
	require.Equal(t, map[string]int{"HTTP://A.example.com:8081/": 0, hostB: 0}, w.used("pool"))
}
