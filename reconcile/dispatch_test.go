package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/db/dbsqlc"
	"berth/db/dbtest"
	"berth/internal/defaults"
	"berth/provisioner"
)

// Every job is deleted, again and again, while wishes change. Everything still converges.
func TestJobsDeletedUnderLoad(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f, fake, backends := faked(t)
	f.start(backends)
	ids := f.create(60)
	for i := range 10 {
		for k, change := range []func(context.Context, pgx.Tx, ...uuid.UUID) error{f.admin.Stop, f.admin.Start, f.admin.Restart} {
			f.tx(func(tx pgx.Tx) error { return change(ctx, tx, ids[(i+7*k)%60], ids[(i+13*k+1)%60]) })
		}
		f.exec(`DELETE FROM berth.river_job`)
	}
	f.none(`SELECT count(*) FROM berth.deployments WHERE state <> desired_state`)
	f.tx(func(tx pgx.Tx) error { return f.admin.Delete(ctx, tx, ids...) })
	f.exec(`DELETE FROM berth.river_job`)
	f.clean()
	empty(t, fake)
}

// What is due, and to whom it matters. Each place gets one job, in the queue and with the priority that it is to have.
func TestDispatch(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, c := range map[string]struct {
		reason   string
		set      string
		job      bool
		queue    string
		priority int
	}{
		"due":                  {"an intent whose job was lost", ``, true, "provisioner-a", 1},
		"not due":              {"its job has time yet", `UPDATE berth.provisioner_resources SET retry_at = now() + interval '1 minute'`, false, "", 0},
		"settled":              {"nothing is due", `UPDATE berth.provisioner_resources SET retry_at = NULL, claimed_generation = 1, observed_generation = 1, phase = 'ready'`, false, "", 0},
		"a settled one looked": {"behind what a person waits for", `UPDATE berth.provisioner_resources SET claimed_generation = 1, observed_generation = 1, phase = 'ready'`, true, "background-a", 2},
		"broken":               {"a repair, for which no person waits", `UPDATE berth.provisioner_resources SET claimed_generation = 1, observed_generation = 1, phase = 'pending'`, true, "background-a", 2},
		"updated":              {"what is asked for anew is waited for", `UPDATE berth.provisioner_resources SET claimed_generation = 1, observed_generation = 1, phase = 'ready', generation = 2, intent_generation = 2`, true, "provisioner-a", 1},
		"overdue":              {"nobody waits any more for what is errored", `UPDATE berth.provisioner_resources SET deadline_at = now() - interval '1 minute'`, true, "background-a", 2},
		"failing":              {"it is waited for until its deadline", `UPDATE berth.provisioner_resources SET claimed_generation = 1, failures = 3, failing_since = now()`, true, "provisioner-a", 1},
		"a debt":               {"its deployment is gone", `UPDATE berth.provisioner_resources SET deployment_id = NULL, desired_phase = 'absent'`, true, "background-a", 2},
		"a delete":             {"a person waits until it is gone", `UPDATE berth.provisioner_resources SET desired_phase = 'absent', claimed_generation = 1, observed_generation = 1, phase = 'ready', generation = 2, intent_generation = 2`, true, "provisioner-a", 1},
		"leased by the living": {"it follows up", `UPDATE berth.provisioner_resources SET fence = gen_random_uuid(), leased_by = (SELECT id FROM berth.workers), leased_until = now() + interval '1 minute', claimed_generation = 1`, false, "", 0},
		"leased by a stranger": {"alive until the hard end", `UPDATE berth.provisioner_resources SET fence = gen_random_uuid(), leased_by = gen_random_uuid(), leased_until = now() + interval '1 minute', claimed_generation = 1`, false, "", 0},
		"leased by the dead": {"found at once, not at the hard end", `WITH w AS (INSERT INTO berth.workers (id, version, provisioners, alive_until) VALUES (gen_random_uuid(), '', '{}', now() - interval '1 second') RETURNING id)
			UPDATE berth.provisioner_resources SET fence = gen_random_uuid(), leased_by = w.id, leased_until = now() + interval '1 minute', claimed_generation = 1 FROM w`, true, "provisioner-a", 1},
		"leased too long": {"whoever it is", `UPDATE berth.provisioner_resources SET fence = gen_random_uuid(), leased_by = (SELECT id FROM berth.workers), leased_until = now(), claimed_generation = 1`, true, "provisioner-a", 1},
		"blocked":         {"woken by whoever removes the old place", `INSERT INTO berth.provisioner_resources (id, provisioner, deployment_id, type, desired_phase, args) SELECT id, 'b', deployment_id, type, 'absent', '{}' FROM berth.provisioner_resources`, false, "", 0},
		"missing":         {"into the queue that all work", `UPDATE berth.provisioners SET seen_at = now() - interval '1 hour'`, true, "shared", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, dbtest.New(t), map[string]provisioner.Provisioner{"a": &scripted{}, "b": &scripted{}})
			f.notJustStarted()
			e := f.engine(map[string]provisioner.Provisioner{}, options{set: func(e *Engine) { e.dispatchEvery = time.Hour }})
			trust(e)
			f.create(1)
			f.exec(`DELETE FROM berth.river_job`)
			f.exec(`UPDATE berth.provisioner_resources SET retry_at = now()`)
			if c.set != "" {
				f.exec(c.set)
			}
			require.NoError(t, e.Dispatch(ctx))
			require.NoError(t, e.Dispatch(ctx), "a second look finds nothing")
			require.Equal(t, map[bool]int{true: 1, false: 0}[c.job], f.count(`SELECT count(*) FROM berth.river_job`), c.reason)
			if c.job {
				require.Equal(t, 1, f.count(`SELECT count(*) FROM berth.river_job WHERE queue = $1 AND priority = $2`, c.queue, c.priority), c.reason)
			}
		})
	}
}

// What the dead held is due at once, whatever it was set to in the meantime, and once: who died is not a reason each second.
func TestOrphansAreHurriedOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	o := newOne(t, options{set: func(e *Engine) { e.dispatchEvery = time.Hour }})
	o.notJustStarted()
	trust(o.Engine)
	worker := uuid.New()
	o.claimFor(worker, o.id)
	o.exec(`UPDATE berth.provisioner_resources SET retry_at = now() + interval '10 minutes'`)
	o.exec(`DELETE FROM berth.river_job`)
	require.NoError(t, o.Dispatch(ctx))
	require.Zero(t, o.count(`SELECT count(*) FROM berth.river_job`), "nobody died")
	o.die(worker)
	for range 3 {
		require.NoError(t, o.Dispatch(ctx))
		require.Equal(t, 1, o.count(`SELECT count(*) FROM berth.river_job`))
		o.exec(`UPDATE berth.provisioner_resources SET retry_at = now() + interval '10 minutes'`)
	}
	require.Len(t, o.hurried, 1)
	o.exec(`UPDATE berth.workers SET alive_until = now() - $1::interval WHERE id = $2`, defaults.Lease, worker)
	require.NoError(t, o.Dispatch(ctx))
	require.Empty(t, o.hurried, "it is forgotten")
}

// A worker that has only just started may not judge whether others died. It claims what another one judged: it works their queue with
// it, and half of what was to be taken over would be nothing to do.
func TestOrphansAreForAll(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	o := newOne(t, options{set: func(e *Engine) { e.dispatchEvery = time.Hour }})
	o.notJustStarted()
	young := o.engine(map[string]provisioner.Provisioner{"a": o.backend}, options{set: func(e *Engine) { e.dispatchEvery = time.Hour }})
	trust(o.Engine)
	worker := uuid.New()
	o.claimFor(worker, o.id)
	o.die(worker)
	o.exec(`UPDATE berth.provisioner_resources SET generation = generation + 1`) // someone asks for something
	o.backend.reconcile = says(ready, nil)
	require.False(t, young.life.mayTakeOver())
	require.NoError(t, young.Drive(ctx, o.id, "a"))
	require.Equal(t, 1, o.count(`SELECT count(*) FROM berth.provisioner_resources WHERE leased_by = $1`, worker))
	require.NoError(t, o.Dispatch(ctx))
	require.False(t, young.life.mayTakeOver())
	require.NoError(t, young.Drive(ctx, o.id, "a"))
	require.Zero(t, o.count(`SELECT count(*) FROM berth.provisioner_resources WHERE leased_by = $1`, worker))
	require.EqualValues(t, 1, young.takeOvers.Load())
}

// What someone held at that moment is hurried once it is free.
func TestHeldOrphansAreHurriedLater(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	o := newOne(t, options{set: func(e *Engine) { e.dispatchEvery = time.Hour }})
	o.notJustStarted()
	trust(o.Engine)
	worker := uuid.New()
	o.claimFor(worker, o.id)
	o.exec(`UPDATE berth.provisioner_resources SET retry_at = now() + interval '10 minutes'`)
	o.exec(`DELETE FROM berth.river_job`)
	o.die(worker)
	require.NoError(t, pgx.BeginFunc(ctx, o.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `SELECT FROM berth.provisioner_resources FOR UPDATE`)
		require.NoError(t, err)
		for range 2 {
			require.NoError(t, o.Dispatch(ctx))
			require.Equal(t, []uuid.UUID{o.id}, o.leftOut)
		}
		return nil
	}))
	require.Zero(t, o.count(`SELECT count(*) FROM berth.river_job`))
	require.NoError(t, o.Dispatch(ctx))
	require.Equal(t, 1, o.count(`SELECT count(*) FROM berth.river_job`))
	require.Empty(t, o.leftOut)
}

// What the dead held does not wait as long as a backlog may: a run of it may have found it held by someone.
func TestPatienceWithOrphans(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	o := newOne(t, options{set: func(e *Engine) { e.dispatchEvery = time.Hour }})
	o.notJustStarted()
	trust(o.Engine)
	worker := uuid.New()
	o.claimFor(worker, o.id)
	o.die(worker)
	for dead, want := range map[time.Duration]time.Duration{
		0: defaults.Dispatch, 20 * time.Second: 10 * time.Second, time.Hour: defaults.MaxGrace,
	} {
		o.exec(`UPDATE berth.workers SET alive_until = now() - $1::interval WHERE id = $2`, dead, worker)
		o.exec(`UPDATE berth.provisioner_resources SET retry_at = now(), updated_at = now() - interval '10 minutes'`)
		var began, due, ended time.Time
		o.row(`SELECT clock_timestamp()`, nil, &began)
		require.NoError(t, o.Dispatch(ctx))
		o.row(`SELECT retry_at, clock_timestamp() FROM berth.provisioner_resources`, nil, &due, &ended)
		require.GreaterOrEqual(t, due.Sub(began), want, "dead for %v", dead)
		require.Less(t, due.Sub(ended), want+ended.Sub(began)+time.Second, "dead for %v", dead)
	}
}

// Patience grows with the time since anything came of a place, so a backlog is not buried under jobs; a wake-up begins it anew.
func TestPatience(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	o := newOne(t, options{set: func(e *Engine) { e.dispatchEvery = time.Hour }})
	for since, want := range map[time.Duration]time.Duration{
		0: defaults.Grace, 10 * time.Second: defaults.Grace, time.Minute: 30 * time.Second, 10 * time.Minute: 5 * time.Minute, 100 * time.Hour: defaults.MaxGrace,
	} {
		o.exec(`UPDATE berth.provisioner_resources SET retry_at = now(), updated_at = now() - $1::interval`, since)
		require.NoError(t, o.Dispatch(ctx))
		var next time.Duration
		o.row(`SELECT retry_at - clock_timestamp() FROM berth.provisioner_resources`, nil, &next)
		require.InDelta(t, want, next, float64(2*time.Second), "%v since the last outcome", since)
	}
	// One that was settled long ago and is woken must not wait ten minutes when its job is lost.
	o.backend.reconcile = says(ready, nil)
	o.drive(o.Engine, o.id)
	o.exec(`UPDATE berth.provisioner_resources SET updated_at = now() - interval '10 days'`)
	require.NoError(t, o.Wake(ctx, "a", o.id))
	o.exec(`UPDATE berth.provisioner_resources SET retry_at = now()`)
	require.NoError(t, o.Dispatch(ctx))
	require.Equal(t, 1, o.count(`SELECT count(*) FROM berth.provisioner_resources WHERE retry_at < now() + interval '10 seconds'`))
}

// Deployments past a deadline that someone holds do not keep the others from being found.
func TestOverdueBehindHeldOnes(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	o := newOne(t, options{})
	ids := o.create(defaults.DispatchBatch + 10)
	o.exec(`UPDATE berth.provisioner_resources SET deadline_at = now() WHERE deployment_id = ANY($1)`, ids)
	tx, err := o.Pool.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `SELECT FROM berth.deployments WHERE id IN (SELECT id FROM berth.deployments WHERE id = ANY($1) ORDER BY id LIMIT $2) FOR UPDATE`, ids, defaults.DispatchBatch)
	require.NoError(t, err)
	o.none(`SELECT 10 - count(*) FROM berth.deployments WHERE state = 'errored'`)
	require.NoError(t, tx.Rollback(ctx))
	o.none(`SELECT count(*) FROM berth.deployments WHERE state <> 'errored' AND id = ANY($1)`, ids)
	require.Equal(t, "pending", o.state(o.deployment))
}

// A deadline that passed while nobody could see to it is found by the look at all of them, which is not the one of each second.
func TestOverdueLongAgo(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	o := newOne(t, options{set: func(e *Engine) { e.dispatchEvery = time.Hour }})
	ids := o.create(2)
	o.exec(`UPDATE berth.provisioner_resources SET deadline_at = now() - interval '1 year' WHERE deployment_id = $1`, ids[0])
	require.NoError(t, o.Dispatch(ctx))
	require.Equal(t, "errored", o.state(ids[0]), "the first look is at all")
	o.exec(`UPDATE berth.provisioner_resources SET deadline_at = now() - interval '1 year' WHERE deployment_id = $1`, ids[1])
	o.exec(`UPDATE berth.provisioner_resources SET deadline_at = now() WHERE deployment_id = $1`, o.deployment)
	require.NoError(t, o.Dispatch(ctx))
	require.Equal(t, "errored", o.state(o.deployment), "a deadline that passed lately")
	require.Equal(t, "pending", o.state(ids[1]))
	o.overdueAll.Store(time.Now().Add(-2 * defaults.OverdueAll).UnixNano())
	require.NoError(t, o.Dispatch(ctx))
	require.Equal(t, "errored", o.state(ids[1]))
}

// What waited for an older place to go is woken in the transaction in which it goes, at its own provisioner.
func TestOldPlaceGoesFirst(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	a, b := &scripted{}, &scripted{}
	backends := map[string]provisioner.Provisioner{"a": a, "b": b}
	f := newFleet(t, dbtest.New(t), backends)
	e := f.engine(backends, options{set: func(e *Engine) { e.dispatchEvery = time.Hour }})
	d := f.create(1)[0]
	id := f.runtime(d)
	f.drive(e, id)
	f.exec(`UPDATE berth.provisioner_resources SET desired_phase = 'absent', generation = generation + 1, intent_generation = generation + 1`)
	f.beside(id, "b", "ready", false)
	require.NoError(t, e.Drive(ctx, id, "b"))
	require.Equal(t, 1, f.count(`SELECT count(*) FROM berth.provisioner_resources WHERE provisioner = 'b' AND claimed_generation = 0`), "it is blocked")
	f.exec(`DELETE FROM berth.river_job`)
	f.drive(e, id)
	require.Equal(t, 1, f.count(`SELECT count(*) FROM berth.river_job WHERE queue = 'provisioner-b'`))
	require.NoError(t, e.Drive(ctx, id, "b"))
	require.Equal(t, "running", f.state(d))
	require.Equal(t, 1, f.count(`SELECT count(*) FROM berth.deleted_resources WHERE provisioner = 'a'`))
	// Moving back makes the place anew, and its tombstone goes: a sweep would take it for leave to delete.
	err := dbsqlc.New().PlaceInsert(ctx, f.Pool, &dbsqlc.PlaceInsertParams{
		Ids: []uuid.UUID{id}, Provisioners: []string{"a"}, Timeouts: []time.Duration{time.Minute}, DeploymentIds: []uuid.UUID{f.create(1)[0]}, Types: []string{"runtime"}, Names: []string{"old"},
		DesiredPhases: []string{"absent"}, Args: []json.RawMessage{json.RawMessage(`{}`)}, Grace: defaults.Grace,
	})
	require.NoError(t, err)
	require.Zero(t, f.count(`SELECT count(*) FROM berth.deleted_resources`))
}

// A great many are due at once, at several workers.
func TestManyDue(t *testing.T) {
	t.Parallel()
	f, _, backends := faked(t)
	f.running(3 * defaults.DispatchBatch)
	f.exec(`UPDATE berth.provisioner_resources SET retry_at = now() - random() * interval '1 minute'`)
	for range 3 {
		f.engine(backends, options{})
	}
	f.none(fmt.Sprintf(`SELECT %d - count(*) FROM berth.river_job`, 3*defaults.DispatchBatch))
	require.Equal(t, 3*defaults.DispatchBatch, f.count(`SELECT count(DISTINCT args) FROM berth.river_job`), "each once")
}
