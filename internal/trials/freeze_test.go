package trials

import (
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"berth/db/dbtest"
	"berth/lifecycle"
)

// A sleeper is a worker that is stopped at a place, and how it is.
type sleeper struct {
	at    hold
	order func(*order)
}

// listening workers notice that their time is over as soon as they wake. deaf ones finish what they were at, and those with an old
// clock see no reason to stop: then only fences are in the way.
func listening(*order)    {}
func deaf(o *order)       { o.Deaf = true }
func oldClock(o *order)   { o.OldClock = true }
func deafAndOld(o *order) { o.Deaf, o.OldClock = true, true }

// Workers are stopped past their leases while others hibernate and delete what they worked on. When they wake, before the others
// are done or after it, they write nothing, inside or outside, that stays.
func TestAsleepPastTheLease(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		early    bool // awake while the others are still at it
		sleepers []sleeper
	}{
		"WokenWhenAllIsDone": {sleepers: []sleeper{
			{hold{When: before, What: "trial.make"}, deaf},
			{hold{When: before, What: "trial.turn"}, deafAndOld},
			{hold{When: done, What: "Reconcile"}, oldClock},
			{hold{When: answered, What: "PlaceClaim"}, listening},
			{hold{When: before, What: "PlaceStore", Commit: true}, listening},
		}},
		"WokenMeanwhile": {early: true, sleepers: []sleeper{
			{hold{When: begun, What: "Reconcile"}, deaf},
			{hold{When: sent, What: "trial.turn"}, listening},
			{hold{When: before, What: "PlaceStore"}, deafAndOld},
			{hold{When: sent, What: "PlaceStore"}, oldClock},
			{hold{When: before, What: "PlaceClaim"}, listening},
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range times(1) {
				asleep(t, c.early, c.sleepers)
			}
		})
	}
}

func asleep(t *testing.T, early bool, sleepers []sleeper) {
	f := begin(t, dbtest.New(t), map[string]backend{"a": {Type: "world", Delay: 50 * time.Millisecond}})
	f.order.MaxWorkers = 10
	end := f.guard()
	var asleep []*process
	var ids, held []uuid.UUID
	for _, s := range sleepers {
		p := f.start(s.order)
		p.arm(s.at)
		asleep = append(asleep, p)
		held = append(held, p.id)
	}
	ids = f.create("a", 100)
	for _, p := range asleep {
		p.hears("at")
		p.signal(syscall.SIGSTOP)
		p.tell("on") // the first thing that it hears
	}
	leases := f.count(`SELECT count(*) FROM berth.provisioner_resources WHERE leased_by = ANY($1)`, held)
	require.GreaterOrEqual(t, leases, len(sleepers)-1)
	f.start()
	f.change((*lifecycle.Client).Stop, ids[:50]...)
	f.change((*lifecycle.Client).Delete, ids[50:]...)
	dead := func() bool {
		return f.count(`SELECT count(*) FROM berth.workers WHERE id = ANY($1) AND alive_until > clock_timestamp()`, held) == 0
	}
	f.until(dead, f.picture)
	others := func() {
		f.none(`SELECT count(*) FROM berth.deployments WHERE desired_state = 'deleted' OR state <> 'stopped'`)
		f.check()
	}
	if !early {
		others()
	}
	refused := 0
	for _, p := range asleep {
		p.signal(syscall.SIGCONT)
	}
	for i, p := range asleep {
		n := p.drain()
		t.Logf("asleep %s: %d writes refused", sleepers[i].at, n)
		refused += n
	}
	others()
	late := f.said("an outcome came too late")
	t.Logf("%d places held by the sleepers, %d late writes outside refused, %d late outcomes dropped", leases, refused, late)
	if !early { // or what they wrote was not late
		require.Positive(t, refused)
		require.Positive(t, late)
	}

	// Awake again, they work as before, under other names.
	f.until(func() bool {
		return f.count(`SELECT count(*) FROM berth.workers WHERE alive_until > clock_timestamp()`) == len(asleep)+1
	}, f.picture)
	f.change((*lifecycle.Client).Start, ids[:50]...)
	f.running()
	f.check()
	f.clean()
	end()
}
