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
	stop, start, remove := (*lifecycle.Client).Stop, (*lifecycle.Client).Start, (*lifecycle.Client).Delete
	cases := map[string]naps{
		"MakingWokenWhenAllIsDone": {then: [2]change{stop, remove}, sleepers: []sleeper{
			{hold{When: before, What: "trial.make"}, deaf},
			{hold{When: before, What: "static_take"}, deafAndOld},
			{hold{When: before, What: "trial.turn"}, deafAndOld},
			{hold{When: answered, What: "static_take"}, deaf},
			{hold{When: done, What: "Reconcile"}, oldClock},
			{hold{When: answered, What: "PlaceClaim"}, listening},
			{hold{When: before, What: "PlaceStore", Commit: true}, listening},
		}},
		"MakingWokenMeanwhile": {early: true, then: [2]change{stop, remove}, sleepers: []sleeper{
			{hold{When: begun, What: "Reconcile"}, deaf},
			{hold{When: sent, What: "static_take"}, deaf},
			{hold{When: sent, What: "trial.turn"}, listening},
			{hold{When: before, What: "PlaceStore"}, deafAndOld},
			{hold{When: sent, What: "PlaceStore"}, oldClock},
			{hold{When: before, What: "PlaceClaim"}, listening},
		}},
		"StoppingWokenWhenAllIsDone": {first: stop, then: [2]change{start, remove}, sleepers: []sleeper{
			{hold{When: before, What: "static_take"}, deaf},
			{hold{When: before, What: "trial.turn"}, deaf},
			{hold{When: done, What: "Hibernate"}, deafAndOld},
			{hold{When: before, What: "PlaceStore"}, oldClock},
		}},
		"DeletingWokenMeanwhile": {early: true, first: remove, then: [2]change{remove, remove}, sleepers: []sleeper{
			{hold{When: before, What: "static_take"}, deaf},
			{hold{When: sent, What: "trial.remove"}, listening},
			{hold{When: done, What: "Deprovision"}, deafAndOld},
			{hold{When: before, What: "PlaceDrop", Commit: true}, listening},
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range times(1) {
				c.run(t)
			}
		})
	}
}

// naps are workers asleep while others do what is asked.
type naps struct {
	first    change    // what they are at; making if nil
	then     [2]change // what is asked of one half and of the other while they sleep
	early    bool      // they wake while the others are still at it
	sleepers []sleeper
}

func (c naps) run(t *testing.T) {
	f := begin(t, dbtest.New(t), both(t, 50, 50*time.Millisecond))
	f.order.MaxWorkers = 5
	end := f.guard()
	awake := f.start()
	if c.first != nil {
		f.createAll(50)
		f.running()
	}
	awake.signal(syscall.SIGTERM) // the sleepers are to be the only ones
	awake.wait()
	var asleep []*process
	var held []uuid.UUID
	for _, s := range c.sleepers {
		p := f.start(s.order)
		p.arm(s.at)
		asleep, held = append(asleep, p), append(held, p.id)
	}
	if c.first != nil {
		f.change(c.first, f.deployments()...)
	} else {
		f.createAll(50)
	}
	for _, p := range asleep {
		p.hears("at")
		p.signal(syscall.SIGSTOP)
		p.tell("on") // the first thing that it hears
	}
	leases := f.count(`SELECT count(*) FROM berth.provisioner_resources WHERE leased_by = ANY($1)`, held)
	require.Positive(t, leases)
	f.start()
	left := f.deployments()
	f.change(c.then[0], left[:len(left)/2]...)
	f.change(c.then[1], left[len(left)/2:]...)
	f.until(func() bool {
		return f.count(`SELECT count(*) FROM berth.workers WHERE id = ANY($1) AND alive_until > clock_timestamp()`, held) == 0
	}, f.picture)
	others := func() {
		f.none(`SELECT count(*) FROM berth.deployments WHERE state <> desired_state`)
		f.check()
	}
	if c.early {
		some := func() bool {
			return f.count(`SELECT count(*) FROM berth.provisioner_resources WHERE leased_by = ANY($1)`, held) < leases
		}
		f.until(some, f.picture)
	} else {
		others()
	}
	for _, p := range asleep {
		p.signal(syscall.SIGCONT)
	}
	refused := 0
	for i, p := range asleep {
		n := p.drain()
		t.Logf("asleep %s: %d writes refused", c.sleepers[i].at, n)
		refused += n
	}
	others()
	late := f.said("an outcome came too late")
	t.Logf("%d places held by the sleepers, %d late writes outside refused, %d late outcomes dropped", leases, refused, late)
	if !c.early { // or what they wrote was not late
		require.Positive(t, refused)
		require.Positive(t, late)
	}

	// Awake again, they work as before, under other names.
	f.until(func() bool {
		return f.count(`SELECT count(*) FROM berth.workers WHERE alive_until > clock_timestamp()`) == len(asleep)+1
	}, f.picture)
	if left = f.deployments(); len(left) > 0 {
		f.change((*lifecycle.Client).Start, left...)
		f.running()
		f.check()
	}
	f.clean()
	end()
}
