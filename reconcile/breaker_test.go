package reconcile

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/db/dbtest"
	"berth/internal/defaults"
	"berth/provisioner"
)

var errDown = fmt.Errorf("dial: %w", provisioner.ErrUnavailable)

// trip opens the breaker of a backend without the engine's noticing: the test makes the tries.
func trip(b *backend) {
	b.breaker.mu.Lock()
	defer b.breaker.mu.Unlock()
	// For so long that the engine itself leaves it alone while a test runs, should it notice.
	b.breaker.silent, b.breaker.down, b.breaker.open, b.breaker.opened = defaults.BreakerAfter, time.Now().Add(-time.Hour), true, 1
}

func TestBreakerOpens(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := newBreaker()
	for i := range defaults.BreakerAfter - 1 {
		_, open := b.unanswered(now, "dial")
		require.False(t, open, "%d in a row may be chance", i+1)
	}
	b.answered()
	for range 10 * defaults.BreakerAfter { // a backend that lies half of the time
		b.unanswered(now, "dial")
		b.answered()
	}
	pass, try := b.admit()
	require.True(t, pass)
	require.False(t, try)
	require.False(t, b.try(), "there is nothing to try")
	require.Empty(t, b.turned)
	for range defaults.BreakerAfter {
		b.unanswered(now, "dial")
	}
	require.True(t, b.isOpen())
	require.Len(t, b.turned, 1)
	<-b.turned
	wait, open := b.unanswered(now.Add(20*time.Second), "dial")
	require.True(t, open)
	require.Equal(t, 10*time.Second, wait, "the pauses grow")
	wait, _ = b.unanswered(now.Add(time.Hour), "dial")
	require.Equal(t, defaults.UnavailMax, wait)
	require.Empty(t, b.turned, "it is open already")

	pass, _ = b.admit()
	require.False(t, pass, "what comes by itself is turned away")
	require.True(t, b.try())
	require.False(t, b.try(), "one at a time")
	b.tried(false)
	pass, _ = b.admit()
	require.False(t, pass, "the next try is not due")
	require.True(t, b.try())
	b.tried(true)
	pass, try = b.admit()
	require.True(t, pass && try, "nothing waited: whoever comes first is the try")
	pass, _ = b.admit()
	require.False(t, pass)
	require.False(t, b.try())
	b.answered()
	b.tried(true)
	require.False(t, b.isOpen())
	require.Len(t, b.turned, 1)
	pass, try = b.admit()
	require.True(t, pass)
	require.False(t, try)
}

// A backend goes away under load and comes back. Meanwhile it is left alone but for one call at a time, nobody waits in a slot, what
// waits says why, and nothing of it is a failure or errored, however long it lasts. Then all of it is done at once.
func TestBackendGoesAway(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var down atomic.Bool
	var mu sync.Mutex
	under, most := 0, 0
	b := &scripted{reconcile: func(context.Context, *provisioner.Resource) (provisioner.Observation, error) {
		mu.Lock()
		under++
		most = max(most, under)
		mu.Unlock()
		defer func() { mu.Lock(); under--; mu.Unlock() }()
		if down.Load() {
			return unknown, errDown
		}
		return ready, nil
	}}
	b.hibernate = func(context.Context, *provisioner.Resource) (provisioner.Observation, error) {
		if down.Load() {
			return unknown, errDown
		}
		return provisioner.Observation{Phase: provisioner.PhaseHibernated}, nil
	}
	backends := map[string]provisioner.Provisioner{"a": b}
	f := newFleet(t, dbtest.New(t), backends)
	log := &counting{}
	n := f.startWith(options{log: log.logger()}, backends)
	settled := f.create(30)
	f.allRunning()
	require.Equal(t, map[string]bool{"a": false}, n.Breakers())
	down.Store(true)
	ids := f.create(200)
	eventually(t, func() bool { return n.Breakers()["a"] }, "it opens")
	f.none(`SELECT count(*) FROM berth.provisioner_resources WHERE fence IS NOT NULL`) // those that were under way
	mu.Lock()
	most = 0
	mu.Unlock()
	f.tx(func(tx pgx.Tx) error { return f.admin.Restart(ctx, tx, settled[:5]...) })
	require.NoError(t, n.Wake(ctx, "a", f.runtime(settled[10])))
	f.none(`SELECT count(*) FROM berth.river_job WHERE finalized_at IS NULL`)
	f.none(`SELECT 1 - count(*) FROM berth.workers WHERE open_breakers = '{a}'`)
	f.none(`SELECT count(*) FROM berth.deployment_details WHERE id = ANY($1) AND (reason <> 'BackendUnavailable' OR message NOT LIKE 'dial%' OR state <> 'pending')`, ids)
	f.none(`SELECT count(*) FROM berth.provisioner_resources WHERE deployment_id = ANY($1) AND (deadline_at IS NOT NULL OR failures > 0)`, ids)
	mu.Lock()
	require.LessOrEqual(t, most, 1, "one at a time")
	mu.Unlock()
	down.Store(false)
	f.allRunning()
	eventually(t, func() bool { return log.count("answers again") == 1 }, "it closes")
	require.Equal(t, 1, log.count("does not answer and is left alone"), "said once")
	require.Equal(t, map[string]bool{"a": false}, n.Breakers())
	require.Zero(t, f.count(`SELECT count(*) FROM berth.events WHERE detail ->> 'new' = 'errored'`))
	require.Zero(t, f.count(`SELECT count(*) FROM berth.provisioner_resources WHERE reason <> '' OR deadline_at IS NOT NULL`))
	f.deleteAll(append(ids, settled...))
}

// The one try is made with what a person waits for, whatever else waits longer; and with anything, if nobody waits.
func TestProbeTriesHumanWorkFirst(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var tried []uuid.UUID
	b := &scripted{reconcile: func(_ context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
		tried = append(tried, r.ID)
		return unknown, errDown
	}}
	backends := map[string]provisioner.Provisioner{"a": b}
	f := newFleet(t, dbtest.New(t), backends)
	f.running(20)
	f.exec(`UPDATE berth.provisioner_resources SET generation = 2, retry_at = now() - interval '1 hour'`)
	e := f.engine(backends, options{set: func(e *Engine) { e.dispatchEvery = time.Hour }})
	at := e.backends["a"]
	trip(at)
	human := f.runtime(f.create(1)[0])
	for range 3 {
		e.probe(ctx, at)
	}
	require.Equal(t, []uuid.UUID{human, human, human}, tried)
	require.NoError(t, e.Drive(ctx, human, "a"), "one that comes by itself is turned away")
	pauses["resource"][0](f, human)
	e.probe(ctx, at)
	e.probe(ctx, at)
	require.Len(t, tried, 5)
	require.NotContains(t, tried[3:], human, "what is paused is not tried")
	require.NotEqual(t, tried[3], tried[4], "what waits longest is next")
	require.Zero(t, f.count(`SELECT count(*) FROM berth.provisioner_resources WHERE failures > 0`))
}

// If nothing waits when a try is due, whoever comes next is it, and need not wait for another one.
func TestWhoeverComesFirstIsTheProbe(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	o := newOne(t, options{})
	o.backend.reconcile = says(ready, nil)
	o.drive(o.Engine, o.id)
	at := o.backends["a"]
	trip(at)
	o.probe(ctx, at)
	id := o.runtime(o.create(1)[0])
	o.drive(o.Engine, id)
	require.True(t, o.stand(id).Settled)
	require.False(t, at.breaker.isOpen(), "it answered")
}

// What a backend says of one resource, good or bad, is an answer. What the database says, a call that was cut short, and a panic are
// none, and leave the breaker as it is.
func TestWhatClosesABreaker(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    error
		closes bool
	}{
		"nothing wrong": {nil, true}, "invalid": {provisioner.ErrInvalid, true}, "no room": {provisioner.ErrNoCapacity, true}, "a failure": {fmt.Errorf("boom"), true},
		"unavailable": {errDown, false}, "too slow": {fmt.Errorf("%w: x", errSlow), false}, "a panic": {fmt.Errorf("%w: x", errPanic), false},
	} {
		b := newBackend("a", &scripted{})
		trip(b)
		verdict(time.Now(), b, &place{desired: provisioner.PhaseReady}, provisioner.Observation{}, c.err)
		require.Equal(t, !c.closes, b.breaker.isOpen(), name)
	}
}

// A worker that can not reach a backend does not keep another one from it.
func TestAnotherProcessIsNotAffected(t *testing.T) {
	t.Parallel()
	cut := &scripted{reconcile: says(unknown, errDown)}
	f := newFleet(t, dbtest.New(t), map[string]provisioner.Provisioner{"a": cut})
	n := f.start(map[string]provisioner.Provisioner{"a": cut})
	f.create(20)
	eventually(t, func() bool { return n.Breakers()["a"] }, "it opens")
	other := f.start(map[string]provisioner.Provisioner{"a": &scripted{}})
	eventually(t, func() bool { return !n.backends["a"].working.Load() }, "it leaves the queue to the other one")
	f.create(20)
	f.allRunning()
	require.False(t, other.Breakers()["a"])
	require.Zero(t, f.count(`SELECT count(*) FROM berth.events WHERE detail ->> 'new' = 'errored'`))
	other.stop()
	eventually(t, func() bool { return n.backends["a"].working.Load() }, "there is nobody else")
}

// A backend that comes and goes, or lies now and then, loses no wake-up: in the end all runs, and each opening was closed.
func TestBackendFlaps(t *testing.T) {
	t.Parallel()
	for name, lies := range map[string]func(*atomic.Bool) bool{
		"comes and goes":      func(down *atomic.Bool) bool { return down.Load() },
		"lies now and then":   func(down *atomic.Bool) bool { return down.Load() && rand.N(2) == 0 },
		"nearly always lies":  func(down *atomic.Bool) bool { return down.Load() && rand.N(10) > 0 },
		"tells the truth now": func(*atomic.Bool) bool { return false },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var down atomic.Bool
			b := &scripted{reconcile: func(context.Context, *provisioner.Resource) (provisioner.Observation, error) {
				if lies(&down) {
					return unknown, errDown
				}
				return ready, nil
			}}
			b.hibernate, b.deprovision = nil, nil
			backends := map[string]provisioner.Provisioner{"a": b}
			f := newFleet(t, dbtest.New(t), backends)
			log := &counting{}
			f.startWith(options{log: log.logger()}, backends)
			var ids []uuid.UUID
			for i := range 8 {
				down.Store(i%2 == 0)
				ids = append(ids, f.create(20)...)
				f.none(`SELECT count(*) FROM berth.river_job WHERE finalized_at IS NULL`)
			}
			down.Store(false)
			f.allRunning()
			eventually(t, func() bool { return log.count("answers again") == log.count("does not answer and is left alone") }, "each that opened closed")
			require.Zero(t, f.count(`SELECT count(*) FROM berth.events WHERE detail ->> 'new' = 'errored'`))
			f.deleteAll(ids)
		})
	}
}
