package reconcile

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/db/dbtest"
	"berth/lifecycle"
	"berth/provisioner"
)

// pauses are the ways to pause what the fleet's one resource needs, and to end that.
var pauses = map[string][2]func(f *fleet, id uuid.UUID){
	"provisioner": {
		func(f *fleet, _ uuid.UUID) {
			f.tx(func(tx pgx.Tx) error { return f.admin.PauseProvisioner(context.Background(), tx, "a") })
		},
		func(f *fleet, _ uuid.UUID) {
			f.tx(func(tx pgx.Tx) error { return f.admin.ResumeProvisioner(context.Background(), tx, "a") })
		},
	},
	"resource": {
		func(f *fleet, id uuid.UUID) {
			f.tx(func(tx pgx.Tx) error { return f.admin.PauseResource(context.Background(), tx, id) })
		},
		func(f *fleet, id uuid.UUID) {
			f.tx(func(tx pgx.Tx) error { return f.admin.ResumeResource(context.Background(), tx, id) })
		},
	},
}

// A pause holds provisioning and repair, in whatever state a place is; stop, delete and debts go on. What is held is neither claimed
// nor woken again and again, and due as soon as the pause ends.
func TestPauseHoldsProvisioningAndRepair(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	const settled = `claimed_generation = 1, observed_generation = 1, generation = 2, `
	const dead = `fence = gen_random_uuid(), leased_by = gen_random_uuid(), leased_until = now() - interval '1 second', `
	for name, c := range map[string]struct {
		reason string
		set    string // of the place
		wish   string // of the deployment
		held   bool
	}{
		"never claimed":                 {"to be made", `phase = 'unknown'`, "running", true},
		"on its way":                    {"to be made", `claimed_generation = 1, generation = 2, phase = 'pending'`, "running", true},
		"failing":                       {"to be made", `claimed_generation = 1, generation = 2, failures = 3, failing_since = now()`, "running", true},
		"overdue":                       {"to be made", `deadline_at = now() - interval '1 hour'`, "running", true},
		"given up":                      {"to be made, whoever woke it", `claimed_generation = 1, generation = 2, given_up_at = now()`, "running", true},
		"waits for room":                {"to be made", `claimed_generation = 1, generation = 2, reason = 'NoCapacity'`, "running", true},
		"an update":                     {"to be made otherwise", settled + `intent_generation = 2, phase = 'ready'`, "running", true},
		"a start":                       {"to be made again", settled + `intent_generation = 2, phase = 'hibernated'`, "running", true},
		"a look at what runs":           {"what is looked at may be repaired", settled + `phase = 'ready'`, "running", true},
		"broken":                        {"to be repaired", settled + `phase = 'pending', reason = 'Crashed'`, "running", true},
		"gone by itself":                {"to be repaired", settled + `phase = 'absent'`, "running", true},
		"a lost worker's":               {"taken over later", settled + dead + `phase = 'pending'`, "running", true},
		"two lost workers'":             {"nothing is counted meanwhile", settled + dead + `lost = 1, phase = 'pending'`, "running", true},
		"a suspect":                     {"nothing is tried meanwhile", settled + `lost = 2, phase = 'pending'`, "running", true},
		"a restart":                     {"nothing may bring it up again, so it is not taken down", settled + `intent_generation = 2, desired_phase = 'hibernated', phase = 'ready'`, "running", true},
		"a stop":                        {"goes on", settled + `intent_generation = 2, desired_phase = 'hibernated', phase = 'ready'`, "stopped", false},
		"a stop of what was never made": {"goes on", `desired_phase = 'hibernated'`, "stopped", false},
		"a stop that fails":             {"goes on", settled + `desired_phase = 'hibernated', phase = 'ready', failures = 2, failing_since = now()`, "stopped", false},
		"a lost worker's stop":          {"goes on", settled + dead + `desired_phase = 'hibernated', phase = 'ready'`, "stopped", false},
		"a look at what is stopped":     {"keeps it stopped", settled + `desired_phase = 'hibernated', phase = 'hibernated'`, "stopped", false},
		"a delete":                      {"goes on", settled + `intent_generation = 2, desired_phase = 'absent', phase = 'ready'`, "deleted", false},
		"a delete of what is pending":   {"goes on", `desired_phase = 'absent', phase = 'pending'`, "deleted", false},
		"a lost worker's delete":        {"goes on", settled + dead + `desired_phase = 'absent', phase = 'ready'`, "deleted", false},
		"the old place of a move":       {"cleaned up", settled + `desired_phase = 'absent', phase = 'ready'`, "running", false},
		"a debt":                        {"paid", settled + `desired_phase = 'absent', phase = 'ready', deployment_id = NULL`, "running", false},
	} {
		for scope, pause := range pauses {
			t.Run(name+", "+scope, func(t *testing.T) {
				t.Parallel()
				o := newOne(t, options{set: func(e *Engine) { e.dispatchEvery = time.Hour }})
				o.exec(`UPDATE berth.deployments SET desired_state = $1`, c.wish)
				o.exec(`UPDATE berth.provisioner_resources SET ` + c.set)
				o.exec(`UPDATE berth.provisioners SET paused_at = now() WHERE $1`, scope == "provisioner")
				o.exec(`UPDATE berth.provisioner_resources SET paused_at = now() WHERE $1`, scope == "resource")
				row := func() (all string) {
					o.row(`SELECT p::text FROM berth.provisioner_resources p`, nil, &all)
					return all
				}
				o.exec(`DELETE FROM berth.river_job`)
				o.exec(`UPDATE berth.provisioner_resources SET retry_at = now()`)
				before := row()
				for range 3 {
					require.NoError(t, o.Dispatch(ctx))
				}
				require.Equal(t, map[bool]int{true: 0, false: 1}[c.held], o.count(`SELECT count(*) FROM berth.river_job`), c.reason)
				p, err := o.claimOnce(ctx, o.id, "a")
				require.NoError(t, err, c.reason)
				require.Equal(t, c.held, p == nil, c.reason)
				if !c.held {
					return
				}
				require.Equal(t, before, row(), "%s: it is left as it was", c.reason)
				pause[1](o.fleet, o.id)
				require.NoError(t, o.Dispatch(ctx))
				require.GreaterOrEqual(t, o.count(`SELECT count(*) FROM berth.river_job`), 1, "%s: due as soon as the pause ends", c.reason)
				a, err := ask(ctx, o.Pool, o.id, "a", true)
				require.NoError(t, err)
				if name != "two lost workers'" { // the second loss is spread out
					require.False(t, a.Held, "and claimed")
				}
			})
		}
	}
}

// A fleet that is paused while all is under way: what was to be made says why it waits, is no error however long that lasts, and
// runs as soon as the pause ends. The rest goes on.
func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	backends := map[string]provisioner.Provisioner{"a": &scripted{}}
	f := newFleet(t, dbtest.New(t), backends)
	n := f.start(backends)
	ids := f.create(30)
	f.allRunning()
	pause := pauses["provisioner"]
	pause[0](f, uuid.Nil)
	made := f.create(20)
	f.tx(func(tx pgx.Tx) error { return f.admin.Stop(ctx, tx, ids[:10]...) })
	f.tx(func(tx pgx.Tx) error { return f.admin.Delete(ctx, tx, ids[10:20]...) })
	f.tx(func(tx pgx.Tx) error { return f.admin.Update(ctx, tx, lifecycle.Change{Slots: 3}, ids[20:25]...) })
	f.tx(func(tx pgx.Tx) error { return f.admin.Restart(ctx, tx, ids[25:]...) })
	f.none(`SELECT count(*) FROM berth.deployments WHERE desired_state = 'deleted' OR desired_state = 'stopped' AND state <> 'stopped'`)
	f.none(`SELECT count(*) FROM berth.river_job WHERE finalized_at IS NULL`)
	held := f.count(`SELECT sum(generation) FROM berth.provisioner_resources`)
	// An hour passes: everything was an hour earlier.
	f.exec(`UPDATE berth.provisioner_resources SET deadline_at = deadline_at - interval '1 hour', retry_at = retry_at - interval '1 hour'`)
	f.exec(`UPDATE berth.provisioners SET paused_at = paused_at - interval '1 hour'`)
	for range 3 { // all deadlines have passed, and all is due
		n.overdueAll.Store(0)
		require.NoError(t, n.Dispatch(ctx))
	}
	require.Zero(t, f.count(`SELECT count(*) FROM berth.river_job WHERE finalized_at IS NULL`), "nothing is woken")
	require.Equal(t, held, f.count(`SELECT sum(generation) FROM berth.provisioner_resources`))
	require.Zero(t, f.count(`SELECT count(*) FROM berth.events WHERE detail ->> 'new' = 'errored'`))
	require.Equal(t, 30, f.count(`SELECT count(*) FROM berth.deployment_details WHERE reason = 'ProvisionerPaused' AND state <> 'running'`))
	require.Equal(t, 20, f.count(`SELECT count(*) FROM berth.deployments WHERE id = ANY($1) AND state = 'pending'`, made))
	f.tx(func(tx pgx.Tx) error { return f.admin.Stop(ctx, tx, ids[25:]...) })
	f.none(`SELECT count(*) FROM berth.deployments WHERE desired_state = 'stopped' AND state <> 'stopped'`)
	pause[1](f, uuid.Nil)
	f.none(`SELECT count(*) FROM berth.deployments WHERE state <> desired_state`)
	require.Zero(t, f.count(`SELECT count(*) FROM berth.events WHERE detail ->> 'new' = 'errored'`), "nor are they when it ends")
	require.Zero(t, f.count(`SELECT count(*) FROM berth.deployment_details WHERE reason <> ''`))
	require.Equal(t, f.count(`SELECT count(*) FROM berth.deployments`), 40)
}

// What was held goes on in the order in which it was asked for, before what is asked for after the end of the pause.
func TestResumeInOrder(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	o := newOne(t, options{set: func(e *Engine) { e.dispatchEvery = time.Hour }})
	pauses["provisioner"][0](o.fleet, o.id)
	want := []uuid.UUID{o.id}
	for range 20 {
		want = append(want, o.runtime(o.create(1)[0]))
	}
	o.exec(`DELETE FROM berth.river_job`)
	o.exec(`UPDATE berth.provisioner_resources SET retry_at = retry_at - interval '1 hour'`)
	require.NoError(t, o.Dispatch(ctx))
	require.Zero(t, o.count(`SELECT count(*) FROM berth.river_job`))
	pauses["provisioner"][1](o.fleet, o.id)
	require.NoError(t, o.Dispatch(ctx))
	rows, err := o.Pool.Query(ctx, `SELECT (args ->> 'resource_id')::uuid FROM berth.river_job ORDER BY priority, scheduled_at, id`)
	require.NoError(t, err)
	got, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// A stop that follows a restart which a pause holds is no restart any more.
func TestStopOfAHeldRestart(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for scope, pause := range pauses {
		t.Run(scope, func(t *testing.T) {
			t.Parallel()
			f, _, backends := faked(t)
			f.start(backends)
			d := f.create(1)[0]
			f.allRunning()
			pause[0](f, f.runtime(d))
			f.tx(func(tx pgx.Tx) error { return f.admin.Restart(ctx, tx, d) })
			f.none(`SELECT count(*) FROM berth.river_job WHERE finalized_at IS NULL`)
			require.Equal(t, "ready", f.stand(f.runtime(d)).Phase, "it still runs")
			f.tx(func(tx pgx.Tx) error { return f.admin.Stop(ctx, tx, d) })
			f.none(`SELECT count(*) FROM berth.deployments WHERE state <> 'stopped'`)
		})
	}
}

// A pause that commits while places are claimed by many: what is claimed afterwards is none that it holds.
func TestPauseBesideClaims(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	calls := make(chan struct{}, 10000)
	b := &scripted{reconcile: func(context.Context, *provisioner.Resource) (provisioner.Observation, error) {
		calls <- struct{}{}
		return ready, nil
	}}
	backends := map[string]provisioner.Provisioner{"a": b}
	f := newFleet(t, dbtest.New(t), backends)
	f.start(backends)
	f.start(backends)
	ids := f.create(200)
	<-calls
	pauses["provisioner"][0](f, uuid.Nil)
	var paused time.Time
	require.NoError(t, f.Pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&paused))
	// What was under way has ended: claims that began before, and what they and others had claimed.
	f.none(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start < $1`, paused)
	f.none(`SELECT count(*) FROM berth.provisioner_resources WHERE fence IS NOT NULL`)
	made := len(calls)
	f.none(`SELECT count(*) FROM berth.river_job WHERE finalized_at IS NULL`)
	require.Len(t, calls, made, "nothing was begun")
	pauses["provisioner"][1](f, uuid.Nil)
	f.allRunning()
	require.Len(t, calls, 199, "each once")
	f.tx(func(tx pgx.Tx) error { return f.admin.Delete(ctx, tx, ids...) })
	f.clean()
}
