package reconcile

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/db/dbtest"
	"berth/internal/defaults"
	"berth/lifecycle"
	"berth/provisioner"
)

// answer is what a claim says.
type answer struct {
	Held, TakenOver bool
	Lost            int
}

const claimSQL = `SELECT held, coalesce(taken_over, false), coalesce(lost, 0) FROM berth.claim(ARRAY[$1::uuid], ARRAY[$2::text], ARRAY[$3::uuid], $4, interval '1 minute', interval '6 seconds', $5, interval '30 seconds')`

// ask claims once; nil says that there is nothing to do.
func ask(ctx context.Context, tx interface {
	Query(context.Context, string, ...any) (pgx.Rows, error)
}, id uuid.UUID, at string, takeOver bool) (*answer, error) {
	rows, err := tx.Query(ctx, claimSQL, id, at, uuid.New(), uuid.New(), takeOver)
	if err != nil {
		return nil, err
	}
	a, err := pgx.CollectExactlyOneRow(rows, pgx.RowToAddrOfStructByPos[answer])
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return a, err
}

// worker registers one that lives, or that is dead.
func (f *fleet) worker(alive bool) uuid.UUID {
	f.t.Helper()
	id := uuid.New()
	f.exec(`INSERT INTO berth.workers (id, version, provisioners, alive_until) VALUES ($1, '', '{}', clock_timestamp() + $2 * interval '1 second')`, id, map[bool]int{true: 3600, false: -1}[alive])
	return id
}

func (f *fleet) die(worker uuid.UUID) {
	f.t.Helper()
	f.exec(`INSERT INTO berth.workers (id, version, provisioners, alive_until) VALUES ($1, '', '{}', clock_timestamp() - interval '1 second')
		ON CONFLICT (id) DO UPDATE SET alive_until = excluded.alive_until`, worker)
}

// beside gives a resource a second place.
func (f *fleet) beside(id uuid.UUID, at, desired string, debt bool) {
	f.t.Helper()
	f.exec(`INSERT INTO berth.provisioner_resources (id, provisioner, deployment_id, type, name, desired_phase, args)
		SELECT id, $2, CASE WHEN $4 THEN NULL ELSE deployment_id END, type, name, $3, args FROM berth.provisioner_resources WHERE id = $1`, id, at, desired, debt)
}

func TestClaim(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	// leased has somebody claim the place and a reason to drive it anew come up.
	leased := func(f *fleet, id, worker uuid.UUID) {
		f.claimFor(worker, id)
		f.wake(id)
	}
	locked := func(table, column string) func(*fleet, uuid.UUID, uuid.UUID) func() {
		return func(f *fleet, id, deployment uuid.UUID) func() {
			tx, err := f.Pool.Begin(ctx)
			require.NoError(f.t, err)
			key := id
			if table == "deployments" {
				key = deployment
			}
			_, err = tx.Exec(ctx, `SELECT FROM berth.`+table+` WHERE `+column+` = $1 FOR NO KEY UPDATE`, key)
			require.NoError(f.t, err)
			return func() { require.NoError(f.t, tx.Rollback(ctx)) }
		}
	}
	held, taken, own := &answer{Held: true}, func(lost int) *answer { return &answer{TakenOver: true, Lost: lost} }, &answer{}
	for name, c := range map[string]struct {
		reason   string
		prepare  func(f *fleet, id, deployment uuid.UUID)
		hold     func(f *fleet, id, deployment uuid.UUID) func()
		cautious bool // may not judge others by their heartbeats
		want     *answer
	}{
		"waiting": {"what one claims for", nil, nil, false, own},
		"nothing to do": {"claimed, and no reason since", func(f *fleet, id, _ uuid.UUID) {
			f.exec(`UPDATE berth.provisioner_resources SET claimed_generation = generation`)
		}, nil, false, nil},
		"place held": {"ask again soon", nil, locked("provisioner_resources", "id"), false, held},
		"held, nothing to do": {"not the same as held", func(f *fleet, id, _ uuid.UUID) {
			f.exec(`UPDATE berth.provisioner_resources SET claimed_generation = generation`)
		}, locked("provisioner_resources", "id"), false, nil},
		"deployment held":               {"its outcome could not be stored", nil, locked("deployments", "id"), false, held},
		"living holder":                 {"it follows up", func(f *fleet, id, _ uuid.UUID) { leased(f, id, f.worker(true)) }, nil, false, nil},
		"unknown holder":                {"its row may be younger than what we see: alive until the lease's hard end", func(f *fleet, id, _ uuid.UUID) { leased(f, id, uuid.New()) }, nil, false, nil},
		"dead holder":                   {"taken over", func(f *fleet, id, _ uuid.UUID) { leased(f, id, f.worker(false)) }, nil, false, taken(1)},
		"dead holder, just reconnected": {"everybody gets time to come back", func(f *fleet, id, _ uuid.UUID) { leased(f, id, f.worker(false)) }, nil, true, nil},
		"hard end passed": {"whoever held it", func(f *fleet, id, _ uuid.UUID) {
			leased(f, id, f.worker(true))
			f.exec(`UPDATE berth.provisioner_resources SET leased_until = clock_timestamp()`)
		}, nil, true, taken(1)},
		"lost for the second time": {"spread, without a lease", func(f *fleet, id, _ uuid.UUID) {
			leased(f, id, f.worker(false))
			f.exec(`UPDATE berth.provisioner_resources SET lost = 1`)
		}, nil, false, nil},
		"after the spread": {"an ordinary run", func(f *fleet, id, _ uuid.UUID) { f.exec(`UPDATE berth.provisioner_resources SET lost = 2`) }, nil, false, &answer{Lost: 2}},
		"lost for the third time": {"convicted by the run that follows", func(f *fleet, id, _ uuid.UUID) {
			leased(f, id, f.worker(false))
			f.exec(`UPDATE berth.provisioner_resources SET lost = 2`)
		}, nil, false, taken(3)},
		"blocked":       {"the old place has to go first", func(f *fleet, id, _ uuid.UUID) { f.beside(id, "b", "absent", false) }, nil, false, nil},
		"beside a debt": {"a debt blocks nothing", func(f *fleet, id, _ uuid.UUID) { f.beside(id, "b", "absent", true) }, nil, false, own},
		"on its way out": {"what goes is not blocked", func(f *fleet, id, _ uuid.UUID) {
			f.exec(`UPDATE berth.provisioner_resources SET desired_phase = 'absent'`)
			f.beside(id, "b", "ready", false)
		}, nil, false, own},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, dbtest.New(t), map[string]provisioner.Provisioner{"a": &scripted{}, "b": &scripted{}})
			f.notJustStarted()
			d := f.create(1)[0]
			id := f.runtime(d)
			if c.prepare != nil {
				c.prepare(f, id, d)
			}
			release := func() {}
			if c.hold != nil {
				release = c.hold(f, id, d)
			}
			before := f.stand(id)
			got, err := ask(ctx, f.Pool, id, "a", !c.cautious)
			require.NoError(t, err)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
			switch {
			case name == "lost for the second time":
				s := f.stand(id)
				require.Equal(t, 2, s.Lost)
				require.False(t, s.Leased || s.Waiting)
				require.Equal(t, "Interrupted", s.Reason)
				require.Equal(t, 1, f.count(`SELECT count(*) FROM berth.provisioner_resources WHERE retry_at BETWEEN now() - interval '1 second' AND now() + interval '30 seconds'`))
			case got == nil || got.Held:
				require.Equal(t, before, f.stand(id), "what is not claimed is not changed")
			default:
				s := f.stand(id)
				require.True(t, s.Leased && !s.Waiting)
				require.Equal(t, before.HasLook, s.HasLook, "a claim leaves alone when the dispatcher looks")
				again, err := ask(ctx, f.Pool, id, "a", true)
				require.NoError(t, err)
				require.Nil(t, again, "nobody else gets it")
			}
			release()
		})
	}
}

// notJustStarted waits until a server is older than the time that everybody gets to come back after a restart.
func (f *fleet) notJustStarted() {
	f.t.Helper()
	f.none(`SELECT count(*) FROM (SELECT pg_postmaster_start_time() AS at) s WHERE at > clock_timestamp() - $1::interval`, defaults.Alive)
}

// What decides is read after the lock is held. A move back commits while the old place is claimed: it must not be driven while the
// new one is there.
func TestClaimNeverSeesAnOlderSibling(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := newFleet(t, dbtest.New(t), map[string]provisioner.Provisioner{"a": &scripted{}, "b": &scripted{}})
	id := f.runtime(f.create(1)[0])
	f.beside(id, "b", "absent", true)
	for range 100 {
		// A debt at a, current at b.
		f.exec(`UPDATE berth.provisioner_resources p SET desired_phase = 'absent', deployment_id = NULL, generation = generation + 1, fence = NULL, leased_by = NULL, leased_until = NULL WHERE provisioner = 'a'`)
		f.exec(`UPDATE berth.provisioner_resources p SET desired_phase = 'ready', deployment_id = d.id, fence = NULL, leased_by = NULL, leased_until = NULL FROM berth.deployments d WHERE provisioner = 'b'`)
		done := make(chan error, 1)
		go func() {
			done <- pgx.BeginFunc(ctx, f.Pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, `UPDATE berth.provisioner_resources SET desired_phase = 'absent' WHERE provisioner = 'b'`)
				if err == nil {
					_, err = tx.Exec(ctx, `UPDATE berth.provisioner_resources p SET desired_phase = 'ready', deployment_id = d.id, generation = generation + 1 FROM berth.deployments d WHERE provisioner = 'a'`)
				}
				return err
			})
		}()
		for moved := false; !moved; {
			select {
			case err := <-done:
				require.NoError(t, err)
				moved = true
			default:
			}
			got, err := ask(ctx, f.Pool, id, "a", true)
			require.NoError(t, err)
			if got != nil && !got.Held {
				require.Equal(t, 0, f.count(`SELECT count(*) FROM berth.provisioner_resources WHERE provisioner = 'a' AND desired_phase = 'ready' AND fence IS NOT NULL
					AND claimed_generation = generation`), "driven at a while b is there")
			}
		}
	}
}

// Two reasons to drive one place at once are one run, whoever asks.
func TestClaimedOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := newFleet(t, dbtest.New(t), map[string]provisioner.Provisioner{"a": &scripted{}})
	id := f.runtime(f.create(1)[0])
	for range 20 {
		f.exec(`UPDATE berth.provisioner_resources SET generation = claimed_generation + 1, fence = NULL, leased_by = NULL, leased_until = NULL`)
		got := make(chan *answer, 16)
		for range cap(got) {
			go func() {
				a, err := ask(ctx, f.Pool, id, "a", true)
				if err != nil {
					t.Errorf("claim: %v", err)
				}
				got <- a
			}()
		}
		claims := 0
		for range cap(got) {
			if a := <-got; a != nil && !a.Held {
				claims++
			}
		}
		require.Equal(t, 1, claims)
	}
}

// A place that loses its worker is driven again at once; one that loses three in a row is set aside, said so, and still tried. What
// was in flight beside it is not convicted with it.
func TestWorkersLost(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	calls := map[uuid.UUID]int{}
	b := &scripted{}
	backends := map[string]provisioner.Provisioner{"a": b}
	f := newFleet(t, dbtest.New(t), backends)
	f.notJustStarted()
	e := f.engine(backends, options{})
	trust(e)
	b.reconcile = func(_ context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
		calls[r.ID]++
		return ready, nil
	}
	killer := f.create(1)[0]
	kid := f.runtime(killer)
	for loss := 1; loss <= defaults.MaxLost; loss++ {
		// The killer and an innocent are in flight as their worker dies.
		innocent := f.runtime(f.create(1)[0])
		w := uuid.New()
		f.claimFor(w, innocent)
		if loss == 1 {
			f.claimFor(w, kid)
		} else {
			f.exec(`UPDATE berth.provisioner_resources SET leased_by = $1, leased_until = clock_timestamp() + interval '1 minute', fence = gen_random_uuid(), claimed_generation = generation WHERE id = $2`, w, kid)
		}
		f.die(w)
		f.wake(innocent)
		f.wake(kid)
		f.drive(e, innocent)
		require.Equal(t, 1, calls[innocent], "taken over and driven at once")
		require.True(t, f.stand(innocent).Settled)
		require.Zero(t, f.stand(innocent).Lost, "any outcome sets it to 0")
		switch loss {
		case 1: // the run that takes over dies as well, before it says anything
			f.exec(`UPDATE berth.provisioner_resources SET lost = 1 WHERE id = $1`, kid)
		case 2:
			f.drive(e, kid)
			s := f.stand(kid)
			require.Equal(t, 2, s.Lost)
			require.False(t, s.Leased, "it waits for its time")
			require.Zero(t, calls[kid])
		case 3:
			f.drive(e, kid)
		}
	}
	require.EqualValues(t, 4, e.TakeOvers(), "three innocents, and the killer to be convicted")
	s := f.stand(kid)
	require.Empty(t, cmp.Diff(stand{
		Desired: "ready", Phase: "unknown", Reason: "WorkerLost", State: "{}", Config: "{}", Failures: 1, Lost: 3, GivenUp: true, HasLook: true,
		Message: "3 workers were lost in a row while they worked on it; it is tried again every 10m0s",
	}, s))
	require.Zero(t, calls[kid], "it is not called to be convicted")
	require.Equal(t, "errored", f.state(killer))
	require.Equal(t, []string{lifecycle.DeploymentCreated, lifecycle.WorkerLost, lifecycle.StateChanged + " errored"}, f.events(killer))
	var wait time.Duration
	f.row(`SELECT retry_at - clock_timestamp() FROM berth.provisioner_resources WHERE id = $1`, []any{kid}, &wait)
	require.InDelta(t, defaults.LostRetry, wait, float64(10*time.Second))

	// A worker that starts tries what was given up, but not this: it would die of it, and so would the next.
	other := f.runtime(f.create(1)[0])
	f.exec(`UPDATE berth.provisioner_resources SET given_up_at = now(), claimed_generation = generation WHERE id = $1`, other)
	f.engine(backends, options{})
	eventually(t, func() bool { return f.stand(other).Waiting }, "what was given up is tried")
	require.False(t, f.stand(kid).Waiting)
	// But the dispatcher does, in its time, and then it may heal.
	f.exec(`UPDATE berth.provisioner_resources SET retry_at = now() WHERE id = $1`, kid)
	require.NoError(t, e.Dispatch(ctx))
	f.drive(e, kid)
	require.Equal(t, 1, calls[kid])
	require.Equal(t, "running", f.state(killer))
	require.Zero(t, f.stand(kid).Lost)
}

// trust has an engine judge others by their heartbeats from now on.
func trust(e *Engine) {
	e.life.mu.Lock()
	defer e.life.mu.Unlock()
	e.life.takeOver = time.Time{}
}
