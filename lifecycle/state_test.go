package lifecycle_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"berth/lifecycle"
)

func TestState(t *testing.T) {
	t.Parallel()
	ready := lifecycle.Standing{Desired: "ready", Phase: "ready", Observed: true}
	parked := lifecycle.Standing{Desired: "hibernated", Phase: "hibernated", Observed: true}
	with := func(s lifecycle.Standing, change func(*lifecycle.Standing)) lifecycle.Standing {
		change(&s)
		return s
	}
	old := func(s *lifecycle.Standing) { s.Observed = false }
	tests := map[string]struct {
		reason  string
		desired string
		places  []lifecycle.Standing
		want    string
	}{
		"all ready":  {"each serves what was asked last", "running", []lifecycle.Standing{ready, ready}, "running"},
		"new":        {"nothing was seen yet", "running", []lifecycle.Standing{{Desired: "ready", Phase: "unknown"}}, "pending"},
		"on its way": {"one of two is not there yet", "running", []lifecycle.Standing{ready, {Desired: "ready", Phase: "pending"}}, "pending"},
		"no place":   {"nothing can serve", "running", nil, "pending"},
		"only one on its way out": {"what goes does not count, and nothing is left that could serve", "running",
			[]lifecycle.Standing{{Desired: "absent", Phase: "ready", Observed: true}}, "pending"},
		"resized": {"the old size serves until the new one does", "running", []lifecycle.Standing{ready, with(ready, old)}, "updating"},
		"resize given up": {"what serves can still be wrong: a person has to look", "running",
			[]lifecycle.Standing{ready, with(ready, func(s *lifecycle.Standing) { s.Observed, s.GivenUp = false, true })}, "errored"},
		"given up":           {"the request can not be met as it stands", "running", []lifecycle.Standing{{Desired: "ready", Phase: "absent", GivenUp: true}}, "errored"},
		"too slow":           {"the deadline turns waiting into an error", "running", []lifecycle.Standing{{Desired: "ready", Phase: "pending", Overdue: true}}, "errored"},
		"one of two errored": {"the other does not make up for it", "running", []lifecycle.Standing{ready, {Desired: "ready", Phase: "unknown", GivenUp: true}}, "errored"},
		"removed one errored": {"what was removed does not count", "running",
			[]lifecycle.Standing{ready, {Desired: "absent", Phase: "unknown", GivenUp: true, Overdue: true}}, "running"},
		"restarting, still up":     {"it serves until it is parked", "running", []lifecycle.Standing{{Desired: "hibernated", Phase: "ready"}}, "updating"},
		"restarting, parked":       {"it does not serve", "running", []lifecycle.Standing{parked}, "pending"},
		"ready, provisioner gone":  {"it serves without its worker", "running", []lifecycle.Standing{with(ready, func(s *lifecycle.Standing) { s.Missing = true })}, "running"},
		"new, provisioner gone":    {"it waits", "running", []lifecycle.Standing{{Desired: "ready", Phase: "unknown", Missing: true}}, "pending"},
		"lost sight":               {"it was ready once and is not now", "running", []lifecycle.Standing{with(ready, func(s *lifecycle.Standing) { s.Phase = "pending" })}, "pending"},
		"all parked":               {"nothing is left to do", "stopped", []lifecycle.Standing{parked, parked}, "stopped"},
		"half parked":              {"one of two still costs", "stopped", []lifecycle.Standing{parked, {Desired: "hibernated", Phase: "ready"}}, "stopping"},
		"parked before":            {"parked, but not since it was last asked: a late start may have passed by", "stopped", []lifecycle.Standing{with(parked, old)}, "stopping"},
		"stop, provisioner gone":   {"nobody is there to park it; it is when the provisioner is back", "stopped", []lifecycle.Standing{parked, {Desired: "hibernated", Phase: "ready", Missing: true}}, "stopped"},
		"stop given up":            {"it is not parked, and says so by not being stopped", "stopped", []lifecycle.Standing{{Desired: "hibernated", Phase: "ready", GivenUp: true}}, "stopping"},
		"stopped without places":   {"nothing costs", "stopped", nil, "stopped"},
		"stopped, one on its way":  {"what goes does not count", "stopped", []lifecycle.Standing{parked, {Desired: "absent", Phase: "ready"}}, "stopped"},
		"deleting":                 {"from then on nothing else counts", "deleted", []lifecycle.Standing{{Desired: "absent", Phase: "ready", GivenUp: true}}, "deleting"},
		"deleting, nothing left":   {"its row goes in the same transaction", "deleted", nil, "deleting"},
		"deleting, a place is new": {"whatever the places say", "deleted", []lifecycle.Standing{ready}, "deleting"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, lifecycle.State(tt.desired, tt.places), tt.reason)
		})
	}
}

// standings are all that a place can be.
func standings() []lifecycle.Standing {
	var out []lifecycle.Standing
	for _, desired := range []string{"ready", "hibernated", "absent"} {
		for _, phase := range []string{"unknown", "absent", "pending", "ready", "hibernated"} {
			for bits := range 16 {
				out = append(out, lifecycle.Standing{Desired: desired, Phase: phase, Observed: bits&1 != 0, GivenUp: bits&2 != 0, Overdue: bits&4 != 0, Missing: bits&8 != 0})
			}
		}
	}
	return out
}

// TestStateOfAllCombinations says for every combination, in words of its own, which state is the only right one.
func TestStateOfAllCombinations(t *testing.T) {
	t.Parallel()
	all := standings()
	require.Len(t, all, 240)
	seen := map[string]int{}
	one := func(desired string, places ...lifecycle.Standing) {
		got := lifecycle.State(desired, places)
		seen[desired+" "+got]++
		var current, serving, settledReady, wrong, resting int
		for _, p := range places {
			if p.Desired == "absent" {
				continue
			}
			current++
			if p.Phase == "ready" {
				serving++
			}
			if p.Desired == "ready" && p.Phase == "ready" && p.Observed {
				settledReady++
			}
			if p.GivenUp || p.Overdue {
				wrong++
			}
			if p.Missing || p.Desired == "hibernated" && p.Phase == "hibernated" && p.Observed {
				resting++
			}
		}
		right := map[string]bool{
			"deleted deleting": true,
			"stopped stopped":  resting == current,
			"stopped stopping": resting < current,
			"running errored":  wrong > 0,
			"running running":  wrong == 0 && current > 0 && settledReady == current,
			"running updating": wrong == 0 && current > 0 && settledReady < current && serving == current,
			"running pending":  wrong == 0 && (current == 0 || serving < current),
		}
		if !right[desired+" "+got] {
			t.Fatalf("wished %s with %+v: state %s", desired, places, got)
		}
		reversed := slices.Clone(places)
		slices.Reverse(reversed)
		if again := lifecycle.State(desired, reversed); again != got {
			t.Fatalf("wished %s with %+v: state %s, in the other order %s", desired, places, got, again)
		}
	}
	for _, desired := range []string{"running", "stopped", "deleted"} {
		one(desired)
		for _, a := range all {
			one(desired, a)
			for _, b := range all {
				one(desired, a, b)
			}
		}
	}
	require.Len(t, seen, 7, "each state is reached: %v", seen)
}

func TestKindFor(t *testing.T) {
	t.Parallel()
	require.EqualValues(t, "provision_resource", lifecycle.KindFor("ready"))
	require.EqualValues(t, "hibernate_resource", lifecycle.KindFor("hibernated"))
	require.EqualValues(t, "deprovision_resource", lifecycle.KindFor("absent"))
}
