package trials

import (
	"context"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/db/dbtest"
	"berth/lifecycle"
)

// takeOver is how long what a dead worker held may wait at most until a living one has it or is done with it.
const takeOver = 10 * time.Second

// steps are those of a run, in their order.
var steps = []hold{
	{When: sent, What: "PlaceClaim"},
	{When: answered, What: "PlaceClaim"},
	{When: begun, What: "Reconcile"},
	{When: begun, What: "Hibernate"},
	{When: sent, What: "static_take"},
	{When: answered, What: "static_take"},
	{When: before, What: "trial.turn"},
	{When: sent, What: "trial.turn"},
	{When: done, What: "Reconcile"},
	{When: before, What: "PlaceStore"},
	{When: sent, What: "PlaceStore"},
	{When: before, What: "PlaceStore", Commit: true},
	{When: sent, What: "PlaceStore", Commit: true},
	{When: answered, What: "PlaceStore", Commit: true},
}

// Two of three workers are killed, again and again, at each step of a run and between them, while 200 deployments are under way
// and half of them change their mind.
func TestKilledAtEachStep(t *testing.T) {
	t.Parallel()
	f := begin(t, dbtest.New(t), both(t, 100, 100*time.Millisecond))
	f.order.MaxWorkers = 20
	end := f.guard()
	workers := []*process{f.start(), f.start(), f.start()}
	ids := f.createAll(100)
	var longest time.Duration
	for range times(1) {
		for i := 0; i < len(steps)+2; i += 2 {
			var r round // at any moment, in the end
			if i < len(steps) {
				r = round{steps[i], steps[i+1]}
			}
			calm := func() {}
			took := f.killTwo(workers, r, func() { calm = f.unrest(ids) })
			calm()
			f.change((*lifecycle.Client).Start, ids...)
			f.running()
			f.check()
			t.Logf("killed %s, and %s: taken over after %v", r[0], r[1], took)
			longest = max(longest, took)
		}
	}
	require.Equal(t, 100, f.count(`SELECT count(*) FROM trial.objects WHERE phase = 'ready'`))
	require.Equal(t, 100, f.count(`SELECT sum(used)::int FROM berth.static_runtimes`))

	// And while they go.
	r := round{{When: sent, What: "PlaceDrop"}, {When: before, What: "PlaceDrop", Commit: true}}
	longest = max(longest, f.killTwo(workers, r, func() { f.change((*lifecycle.Client).Delete, ids...) }))
	f.nothing()
	end()
	require.Less(t, longest, takeOver)
}

// unrest has deployments change their minds until the function that it returns is called.
func (f *fleet) unrest(ids []uuid.UUID) (calm func()) {
	changes := []change{(*lifecycle.Client).Stop, (*lifecycle.Client).Start, (*lifecycle.Client).Restart}
	return f.again(50*time.Millisecond, func(ctx context.Context, tx pgx.Tx) error {
		return changes[rand.N(len(changes))](f.admin, ctx, tx, someOf(ids, len(ids)/10)...)
	})
}

// someOf picks so many at random.
func someOf(ids []uuid.UUID, n int) []uuid.UUID {
	some := make([]uuid.UUID, n)
	for i, at := range rand.Perm(len(ids))[:n] {
		some[i] = ids[at]
	}
	return some
}

// again does something in a transaction, again and again, until the function that it returns is called.
func (f *fleet) again(every time.Duration, do func(context.Context, pgx.Tx) error) (end func()) {
	quiet := make(chan struct{})
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for failed == nil {
			failed = pgx.BeginFunc(context.Background(), f.Pool, func(tx pgx.Tx) error { return do(context.Background(), tx) })
			select {
			case <-quiet:
				return
			case <-tick.C:
			}
		}
	})
	return func() {
		f.t.Helper()
		close(quiet)
		wg.Wait()
		require.NoError(f.t, failed, "an admin's call")
	}
}

// A round is two holds: where two of three workers are killed. One that is empty is any moment.
type round [2]hold

// killTwo kills two workers where the round says, while something is done, and starts others for them. It returns how long it
// took until all that the two held was held by another, or done.
func (f *fleet) killTwo(workers []*process, r round, during func()) time.Duration {
	f.t.Helper()
	for i, h := range r {
		if h != (hold{}) {
			workers[i].arm(h)
		}
	}
	during()
	for i, h := range r {
		if h != (hold{}) {
			workers[i].hears("at")
		} else {
			<-time.After(rand.N(300 * time.Millisecond)) // any moment
		}
	}
	began := time.Now()
	workers[0].signal(syscall.SIGKILL)
	workers[1].signal(syscall.SIGKILL)
	dead := []uuid.UUID{workers[0].id, workers[1].id}
	for i := range r {
		workers[i].wait()
		workers[i] = f.launch()
	}
	f.none(`SELECT count(*) FROM berth.provisioner_resources WHERE leased_by = ANY($1)`, dead)
	took := time.Since(began)
	workers[0].ready()
	workers[1].ready()
	return took
}
