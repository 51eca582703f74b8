package reconcile

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/db/dbtest"
	"berth/lifecycle"
	"berth/provisioner"
	"berth/provisioner/provisionertest"
)

// faked is a fleet with one provisioner "a" whose world a test can look at. It does not watch: each run has a reason that the test
// gives.
func faked(t *testing.T) (*fleet, *provisionertest.Fake, map[string]provisioner.Provisioner) {
	t.Helper()
	fake := provisionertest.NewFake("a", provisioner.Runtime, "database")
	backends := map[string]provisioner.Provisioner{"a": struct{ provisioner.Provisioner }{fake}}
	return newFleet(t, dbtest.New(t), backends), fake, backends
}

// empty demands that nothing is left outside either, and that no two calls ever changed one resource at once.
func empty(t *testing.T, fake *provisionertest.Fake) {
	t.Helper()
	require.Empty(t, fake.World.Things())
	require.Empty(t, fake.World.Overlaps())
}

// Wishes that change while a run is under way: the last one wins, what lies between is never done, and nothing is published of
// what was claimed before.
func TestIntentsWhileRunning(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f, fake, backends := faked(t)
	reached, open := make(chan struct{}), make(chan struct{})
	fake.Script(provisionertest.Reconcile, provisionertest.Gate(reached, open, true))
	f.start(backends)
	d := f.create(1)[0]
	<-reached
	for _, change := range []func(pgx.Tx) error{
		func(tx pgx.Tx) error { return f.admin.Stop(ctx, tx, d) },
		func(tx pgx.Tx) error { return f.admin.Start(ctx, tx, d) },
		func(tx pgx.Tx) error { return f.admin.Update(ctx, tx, lifecycle.Change{Slots: 3}, d) },
		func(tx pgx.Tx) error { return f.admin.Delete(ctx, tx, d) },
	} {
		f.tx(change)
	}
	close(open)
	f.clean()
	empty(t, fake)
	require.Equal(t, 1, fake.Count(provisionertest.Reconcile))
	require.Equal(t, 0, fake.Count(provisionertest.Hibernate))
	require.Equal(t, 1, fake.Count(provisionertest.Deprovision))
	require.Empty(t, cmp.Diff([]string{
		lifecycle.DeploymentCreated, lifecycle.StopAsked, lifecycle.StateChanged + " stopping", lifecycle.StartAsked, lifecycle.StateChanged + " pending",
		lifecycle.UpdateAsked, lifecycle.DeleteAsked, lifecycle.StateChanged + " deleting", lifecycle.RuntimeRemoved, lifecycle.DeploymentDeleted,
	}, f.events(d)))
}

// One change that comes when the run is as good as over: after the backend saw it ready, before that was stored.
func TestIntentBetweenOutcomeAndCommit(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, committed := range map[string]bool{"committed before the outcome": true, "still open as the outcome comes": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, fake, backends := faked(t)
			d := uuid.New()
			asked := make(chan pgx.Tx, 1)
			fake.Script(provisionertest.Reconcile, func(ctx context.Context, _ provisionertest.Call, do provisionertest.Do) (provisioner.Observation, error) {
				o, err := do(ctx)
				tx, beginErr := f.Pool.Begin(ctx)
				stopErr := f.admin.Stop(ctx, tx, d)
				if committed {
					stopErr = errors.Join(stopErr, tx.Commit(ctx))
				}
				asked <- tx
				return o, errors.Join(err, beginErr, stopErr)
			})
			f.tx(func(tx pgx.Tx) error {
				return f.admin.Create(ctx, tx, lifecycle.NewDeployment{ID: d, ProjectID: f.project})
			})
			n := f.start(backends)
			if tx := <-asked; !committed {
				// The outcome waits for it, off its slot.
				eventually(t, func() bool { return len(n.waiting) == 0 }, "nobody asks again")
				require.NoError(t, tx.Commit(ctx))
			}
			f.none(`SELECT count(*) FROM berth.deployments WHERE state <> 'stopped'`)
			require.Equal(t, 1, fake.Count(provisionertest.Reconcile))
			require.Equal(t, 1, fake.Count(provisionertest.Hibernate))
			require.NotContains(t, f.events(d), lifecycle.RuntimePublished)
			require.NotContains(t, f.events(d), lifecycle.StateChanged+" running")
			require.Contains(t, f.stand(f.runtime(d)).Config, "a.test", "what was learned is kept")
			f.tx(func(tx pgx.Tx) error { return f.admin.Start(ctx, tx, d) })
			f.allRunning()
			require.Contains(t, f.events(d), lifecycle.RuntimePublished)
			require.Empty(t, fake.World.Overlaps())
		})
	}
}

// Random wishes against a backend that is slow and fails: in the end each deployment is as it was last asked to be, and was not
// driven more often than there were reasons to.
func TestRandomIntents(t *testing.T) {
	t.Parallel()
	const deployments, each = 100, 10
	ctx := context.Background()
	f, fake, backends := faked(t)
	var calm atomic.Bool
	var failed atomic.Int64
	fake.Hook = func(ctx context.Context, _ provisionertest.Call) error {
		if calm.Load() {
			return nil
		}
		timer := time.NewTimer(rand.N(5 * time.Millisecond))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		if rand.N(5) == 0 {
			failed.Add(1)
			return errors.New("boom")
		}
		return nil
	}
	n := f.start(backends)
	ids := f.create(deployments)
	type wish struct {
		stopped bool
		slots   int
	}
	last := make([]wish, deployments)
	var asked atomic.Int64
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for range each {
				for i := w; i < deployments; i += 8 {
					err := pgx.BeginFunc(ctx, f.Pool, func(tx pgx.Tx) error {
						switch rand.N(4) {
						case 0:
							last[i].stopped = false
							return f.admin.Start(ctx, tx, ids[i])
						case 1:
							last[i].stopped = true
							return f.admin.Stop(ctx, tx, ids[i])
						case 2:
							last[i].stopped = false
							return f.admin.Restart(ctx, tx, ids[i])
						}
						last[i].slots = 1 + rand.N(5)
						return f.admin.Update(ctx, tx, lifecycle.Change{Slots: last[i].slots}, ids[i])
					})
					asked.Add(1)
					if err != nil {
						t.Errorf("a wish was refused: %v", err)
					}
				}
			}
		})
	}
	all.Wait()
	calm.Store(true)
	f.none(`SELECT count(*) FROM berth.deployments WHERE state <> desired_state`)
	for i, id := range ids {
		want, slots := "running", max(last[i].slots, 1)
		if last[i].stopped {
			want = "stopped"
		}
		require.Equal(t, want, f.state(id))
		things := fake.World.Of("a", f.runtime(id))
		for _, thing := range things {
			if want == "running" {
				require.Equal(t, slots, thing.Slots, "%+v", things)
			}
		}
		if want == "running" {
			require.Len(t, things, 2)
		}
	}
	runs := fake.Count(provisionertest.Reconcile) + fake.Count(provisionertest.Hibernate)
	// A restart is two changes; a failure is tried again; a lost race for a lock may cost one more.
	require.LessOrEqual(t, runs, 2*int(asked.Load())+deployments+int(failed.Load()), "%d wishes, %d failures", asked.Load(), failed.Load())
	f.tx(func(tx pgx.Tx) error { return f.admin.Delete(ctx, tx, ids...) })
	f.clean()
	empty(t, fake)
	n.stop()
	f.noDeadlock()
}

// The storm: a thousand wake-ups of one resource, one after another and many at once. It stays running, and there is one run under
// way and one that waits at most.
func TestThousandWakeUps(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f, fake, backends := faked(t)
	n := f.start(backends)
	d := f.create(1)[0]
	f.allRunning()
	id := f.runtime(d)
	inserted := func() int { return f.count(`SELECT count(*) FROM berth.river_job`) }
	for _, parallel := range []int{1, 16} {
		calls, jobs := fake.Count(provisionertest.Reconcile), inserted()
		gate := make(chan struct{})
		fake.Always(provisionertest.Reconcile, uuid.Nil, func(ctx context.Context, _ provisionertest.Call, do provisionertest.Do) (provisioner.Observation, error) {
			<-gate
			return do(ctx)
		})
		require.NoError(t, n.Wake(ctx, "a", id))
		require.NoError(t, fake.Await(ctx, provisionertest.Reconcile, id, calls+1))
		var all sync.WaitGroup
		for w := range parallel {
			all.Go(func() {
				for i := w; i < 1000; i += parallel {
					if err := n.Wake(ctx, "a", id); err != nil {
						t.Errorf("wake: %v", err)
					}
				}
			})
		}
		all.Wait()
		require.Equal(t, "running", f.state(d), "a wake-up unsettles nothing")
		require.LessOrEqual(t, inserted()-jobs, 2, "one under way, one waiting")
		close(gate)
		f.none(`SELECT count(*) FROM berth.provisioner_resources WHERE claimed_generation < generation OR fence IS NOT NULL`)
		require.LessOrEqual(t, fake.Count(provisionertest.Reconcile)-calls, 2)
	}
	// And while each run is as quick as can be.
	fake.Always(provisionertest.Reconcile, uuid.Nil, nil)
	for i := range 1000 {
		require.NoError(t, n.Wake(ctx, "a", id), i)
		if i%100 == 0 {
			require.Equal(t, "running", f.state(d))
		}
	}
	f.none(`SELECT count(*) FROM berth.provisioner_resources WHERE claimed_generation < generation OR fence IS NOT NULL`)
	require.Equal(t, []string{lifecycle.DeploymentCreated, lifecycle.RuntimePublished, lifecycle.StateChanged + " running"}, f.events(d), "nothing happened that anybody would want to know")
	require.Empty(t, fake.World.Overlaps())
}

// Events are told exactly when they are to be.
func TestEvents(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f, fake, backends := faked(t)
	n := f.start(backends)
	d := f.create(1)[0]
	seen := 0
	next := func(want ...string) {
		t.Helper()
		got := f.events(d)[seen:]
		seen += len(got)
		require.Empty(t, cmp.Diff(append([]string{}, want...), append([]string{}, got...)))
	}
	changed := func(state string) string { return lifecycle.StateChanged + " " + state }
	f.allRunning()
	next(lifecycle.DeploymentCreated, lifecycle.RuntimePublished, changed("running"))
	var host, instance string
	f.row(`SELECT detail ->> 'host', detail ->> 'instance_id' FROM berth.events WHERE kind = 'RuntimePublished'`, nil, &host, &instance)
	require.Equal(t, "http://a.test", host)
	require.Equal(t, provisioner.Resource{ID: f.runtime(d)}.ProvisionID(), instance)

	// Looked at, and found as it was: nothing.
	settled := func() {
		f.none(`SELECT count(*) FROM berth.provisioner_resources WHERE claimed_generation < generation OR fence IS NOT NULL`)
	}
	require.NoError(t, n.Wake(ctx, "a", f.runtime(d)))
	settled()
	next()

	// Its config changes while it runs, whoever asked for that.
	fake.Script(provisionertest.Reconcile, func(ctx context.Context, _ provisionertest.Call, _ provisionertest.Do) (provisioner.Observation, error) {
		return ready, nil
	})
	f.exec(`UPDATE berth.provisioner_resources SET config = config || '{"host": "http://old.test"}'`)
	require.NoError(t, n.Wake(ctx, "a", f.runtime(d)))
	settled()
	next() // the backend returned what it got
	require.NoError(t, n.Wake(ctx, "a", f.runtime(d)))
	settled()
	next(lifecycle.ConfigChanged)

	// It fails and heals without being asked.
	fake.Script(provisionertest.Reconcile, provisionertest.Pending("Restarting"), provisionertest.Pending("Restarting"))
	require.NoError(t, n.Wake(ctx, "a", f.runtime(d)))
	f.none(`SELECT count(*) FROM berth.provisioner_resources WHERE phase <> 'pending'`)
	f.allRunning()
	next(changed("pending"), lifecycle.RuntimePublished, changed("running"))

	f.tx(func(tx pgx.Tx) error { return f.admin.Update(ctx, tx, lifecycle.Change{Slots: 2}, d) })
	f.allRunning()
	next(lifecycle.UpdateAsked, changed("updating"), lifecycle.RuntimePublished, changed("running"))
	f.tx(func(tx pgx.Tx) error { return f.admin.Stop(ctx, tx, d) })
	f.none(`SELECT count(*) FROM berth.deployments WHERE state <> 'stopped'`)
	next(lifecycle.StopAsked, changed("stopping"), changed("stopped"))
	f.tx(func(tx pgx.Tx) error { return f.admin.Start(ctx, tx, d) })
	f.allRunning()
	next(lifecycle.StartAsked, changed("pending"), lifecycle.RuntimePublished, changed("running"))
	f.tx(func(tx pgx.Tx) error { return f.admin.Delete(ctx, tx, d) })
	f.clean()
	next(lifecycle.DeleteAsked, changed("deleting"), lifecycle.RuntimeRemoved, lifecycle.DeploymentDeleted)
	empty(t, fake)
}

// What changed in the config of a resource while its outcome was not to be published is told when it serves again.
func TestConfigOfAnOlderIntentIsToldLater(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	o := newOne(t, options{})
	o.tx(func(tx pgx.Tx) error {
		return o.admin.AddResource(ctx, tx, lifecycle.NewResource{Type: "database", Name: "main", Args: []byte(`{"size": 1}`)}, o.deployment)
	})
	var db uuid.UUID
	o.row(`SELECT id FROM berth.provisioner_resources WHERE type = 'database'`, nil, &db)
	endpoint := "one"
	o.backend.reconcile = func(_ context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
		r.Config = fmt.Appendf(nil, `{"endpoint": %q}`, endpoint)
		return ready, nil
	}
	told := func() int {
		return o.count(`SELECT count(*) FROM berth.events WHERE kind = 'ConfigChanged' AND resource_id = $1`, db)
	}
	o.drive(o.Engine, db)
	require.Equal(t, 1, told())
	answer := o.backend.reconcile
	o.backend.reconcile = func(c context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
		o.tx(func(tx pgx.Tx) error {
			return o.admin.AddResource(ctx, tx, lifecycle.NewResource{Type: "database", Name: "main", Args: []byte(`{"size": 2}`)}, o.deployment)
		})
		endpoint = "two"
		return answer(c, r)
	}
	o.wake(db)
	o.drive(o.Engine, db)
	require.Equal(t, 1, told(), "it was claimed before the last change of intent")
	require.JSONEq(t, `{"endpoint": "two"}`, o.stand(db).Config)
	o.backend.reconcile = answer
	o.drive(o.Engine, db)
	require.Equal(t, 2, told())
}
