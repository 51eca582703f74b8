package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/lifecycle"
)

// situations are how the places of a deployment can stand, for each wish: what the engine leaves in the rows at any moment. Times
// and ids aside, a row is what it says here.
var situations = map[string]func(p *mPlace){
	"never claimed":       func(p *mPlace) { p.Generation, p.Intent, p.Due = 1, 1, true },
	"first run":           func(p *mPlace) { p.Generation, p.Intent, p.Claimed, p.Leased, p.Due = 1, 1, 1, true, true },
	"first run, changed":  func(p *mPlace) { p.Generation, p.Intent, p.Claimed, p.Leased, p.Due = 2, 2, 1, true, true },
	"on its way":          func(p *mPlace) { settled(p); p.Observed, p.Phase, p.Reason, p.Due = 0, "pending", "Starting", true },
	"on its way, claimed": func(p *mPlace) { settled(p); p.Observed, p.Phase, p.Leased, p.Due = 0, "pending", true, true },
	"settled":             settled,
	"settled, woken":      func(p *mPlace) { settled(p); p.Generation, p.Due = 4, true },
	"settled, being looked at": func(p *mPlace) {
		settled(p)
		p.Generation, p.Claimed, p.Leased, p.Due = 4, 4, true, true
	},
	"asked anew, unknown":    asked("unknown"),
	"asked anew, absent":     asked("absent"),
	"asked anew, pending":    asked("pending"),
	"asked anew, ready":      asked("ready"),
	"asked anew, hibernated": asked("hibernated"),
	"asked anew, claimed":    func(p *mPlace) { settled(p); p.Generation, p.Intent, p.Claimed, p.Leased, p.Due = 4, 4, 4, true, true },
	"changed under a run":    func(p *mPlace) { settled(p); p.Generation, p.Intent, p.Leased, p.Due = 4, 4, true, true },
	"failing":                func(p *mPlace) { settled(p); p.Observed, p.Failures, p.Reason, p.Due = 1, 3, "Failed", true },
	"failing, claimed":       func(p *mPlace) { settled(p); p.Observed, p.Failures, p.Leased, p.Due = 1, 3, true, true },
	"failing, unknown":       func(p *mPlace) { settled(p); p.Phase, p.Observed, p.Failures, p.Due = "unknown", 0, 1, true },
	"given up": func(p *mPlace) {
		settled(p)
		p.Observed, p.Failures, p.GivenUp, p.Reason, p.Due = 1, 1, true, "Invalid", true
	},
	"its workers were lost": func(p *mPlace) {
		settled(p)
		p.Observed, p.Lost, p.GivenUp, p.Reason, p.Due = 1, 3, true, "WorkerLost", true
	},
	"lost twice":     func(p *mPlace) { settled(p); p.Observed, p.Lost, p.Reason, p.Due = 1, 2, "Interrupted", true },
	"overdue":        func(p *mPlace) { settled(p); p.Observed, p.Phase, p.Due, p.Deadline = 0, "pending", true, "past" },
	"waits for room": func(p *mPlace) { settled(p); p.Observed, p.Phase, p.Reason, p.Due = 1, "absent", "NoCapacity", true },
	"half gone":      func(p *mPlace) { settled(p); p.Phase, p.Observed, p.Due = "pending", 2, true },
	"gone by itself": func(p *mPlace) { settled(p); p.Phase, p.Due = "absent", true },
	"database on its way out, failing": func(p *mPlace) {
		if settled(p); p.Type == "database" {
			p.Desired, p.Observed, p.Failures, p.Due = "absent", 1, 2, true
		}
	},
	"provisioner missing": func(p *mPlace) { settled(p); p.Observed, p.Reason, p.Due = 2, "ProvisionerMissing", true },
}

// settled is a place that stands as it is wished to.
func settled(p *mPlace) {
	p.Phase, p.Generation, p.Claimed, p.Intent, p.Observed = p.Desired, 3, 3, 3, 3
}

// asked is a place of which something was wished that nobody has taken up yet, whatever was seen of it last.
func asked(seen string) func(*mPlace) {
	return func(p *mPlace) {
		settled(p)
		p.Phase, p.Generation, p.Intent, p.Due = seen, 4, 4, true
	}
}

// wishes are what a deployment can be wished to be, and its places with it.
var wishes = map[string]struct{ deployment, place string }{
	"running":    {"running", "ready"},
	"stopped":    {"stopped", "hibernated"},
	"deleted":    {"deleted", "absent"},
	"restarting": {"running", "hibernated"},
}

var matrixCalls = []op{
	{Call: "create"}, {Call: "start"}, {Call: "stop"}, {Call: "restart"}, {Call: "update", Size: 3}, {Call: "update", Size: 2}, {Call: "delete"},
	{Call: "add", Name: "", Size: 1}, {Call: "add", Name: "", Size: 2}, {Call: "add", Name: "x", Size: 1}, {Call: "remove", Name: ""}, {Call: "remove", Name: "x"},
}

// TestEveryCallInEveryState makes each call on deployments in each situation: on one by one, again, and on all of them by many at
// a time. Every row, job and event is as the model says.
func TestEveryCallInEveryState(t *testing.T) {
	t.Parallel()
	for wish, desired := range wishes {
		t.Run(wish, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.wide(t, 6)
			var names []string
			var stands []func(*mPlace)
			for _, name := range slices.Sorted(maps.Keys(situations)) {
				p := &mPlace{Desired: desired.place}
				if situations[name](p); wish == "restarting" && p.Phase == "hibernated" && p.Observed >= p.Intent {
					continue // the engine leaves none behind that is parked: it goes on in the same transaction
				}
				names, stands = append(names, name), append(stands, situations[name])
			}
			for _, o := range matrixCalls {
				for _, times := range []int{1, 2} {
					h, w := b.put(t, desired.deployment, desired.place, stands...)
					for i := range h.ids {
						o.Slots = []int{i}
						for range times {
							want := w.apply(o)
							err := h.try(t.Context(), h.call(o))
							require.ErrorIs(t, err, want, "%s: %s", o, names[i])
						}
					}
					h.compare(t, w, fmt.Sprintf("%s, %d times, %s", o, times, wish))
				}
				h, w := b.put(t, desired.deployment, desired.place, stands...)
				o.Slots = w.all()
				const callers = 5
				errs := make(chan error, callers)
				for range callers {
					go func() { errs <- h.try(t.Context(), h.call(o)) }()
				}
				for range callers {
					want := w.apply(o)
					require.ErrorIs(t, <-errs, want, o)
				}
				h.compare(t, w, fmt.Sprintf("%s by many, %s", o, wish))
			}
		})
	}
}

// put writes deployments whose places stand in one way each, and the model of them.
func (b *bundle) put(t *testing.T, desired, phase string, stands ...func(*mPlace)) (*harness, *world) {
	t.Helper()
	h, w := newHarness(b, len(stands)), newWorld(len(stands))
	for _, o := range []op{{Call: "create", Slots: w.all()}, {Call: "add", Size: 1, Slots: w.all()}} {
		require.NoError(t, h.try(t.Context(), h.call(o)))
		require.NoError(t, w.apply(o))
	}
	h.compare(t, w, "setup")
	rows := &pgx.Batch{}
	for i, d := range w.Deployments {
		d.Desired = desired
		var standings []lifecycle.Standing
		for _, p := range d.Places {
			*p = mPlace{Provisioner: p.Provisioner, Type: p.Type, Name: p.Name, Args: p.Args, Desired: phase, Phase: "unknown", Deadline: "none"}
			stands[i](p)
			if phase != "ready" {
				p.Deadline = "none"
			}
			h.write(rows, h.ids[i], p)
			standings = append(standings, lifecycle.Standing{Desired: p.Desired, Phase: p.Phase, Observed: p.Observed >= p.Intent, GivenUp: p.GivenUp, Overdue: p.Deadline == "past"})
		}
		d.State = lifecycle.State(desired, standings)
		rows.Queue("UPDATE berth.deployments SET desired_state = $2, state = $3 WHERE id = $1", h.ids[i], desired, d.State)
	}
	require.NoError(t, b.pool.SendBatch(t.Context(), rows).Close())
	h.compare(t, w, "putting rows")
	return h, w
}

func (h *harness) write(rows *pgx.Batch, deployment uuid.UUID, p *mPlace) {
	rows.Queue(`UPDATE berth.provisioner_resources SET desired_phase = $2, phase = $3, generation = $4, claimed_generation = $5, intent_generation = $6,
		observed_generation = $7, failures = $8, failing_since = CASE WHEN $8 > 0 THEN now() END, lost = $9, given_up_at = CASE WHEN $10 THEN now() END,
		fence = CASE WHEN $11 THEN gen_random_uuid() END, leased_by = CASE WHEN $11 THEN gen_random_uuid() END, leased_until = CASE WHEN $11 THEN now() + interval '1 minute' END,
		retry_at = CASE WHEN $12 THEN now() + interval '1 minute' END, reason = $13, message = $13,
		deadline_at = CASE $14 WHEN 'past' THEN now() - interval '1 minute' WHEN 'ahead' THEN now() + interval '1 minute' END WHERE deployment_id = $1 AND type = $15`,
		deployment, p.Desired, p.Phase, p.Generation, p.Claimed, p.Intent, p.Observed, p.Failures, p.Lost, p.GivenUp, p.Leased, p.Due, p.Reason, p.Deadline, p.Type)
}

// TestLeaseIsLeftAlone proves that no call takes a lease from a run, or touches what it noted.
func TestLeaseIsLeftAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, o := range matrixCalls {
		h, _ := b.put(t, "running", "ready", situations["settled, being looked at"])
		o.Slots = []int{0}
		read := func() (row string) {
			require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT string_agg(concat_ws(' ', id, fence, leased_by, leased_until, phase, state, config, claimed_generation, observed_generation), ',' ORDER BY id)
				FROM berth.provisioner_resources WHERE deployment_id = $1 AND name = ''`, h.ids[0]).Scan(&row))
			return row
		}
		before := read()
		err := b.try(t.Context(), h.call(o))
		require.NoError(t, err, o)
		require.Equal(t, before, read(), o)
	}
}

// TestEveryCallOnWhatIsNotThere is the matrix's empty row.
func TestEveryCallOnWhatIsNotThere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, o := range matrixCalls[1:] {
		h, w := newHarness(b, 2), newWorld(2)
		require.NoError(t, b.try(t.Context(), h.call(op{Call: "create", Slots: []int{0}})))
		require.NoError(t, w.apply(op{Call: "create", Slots: []int{0}}))
		h.compare(t, w, "create")
		o.Slots = []int{0, 1}
		require.ErrorIs(t, w.apply(o), lifecycle.ErrNotFound)
		err := b.try(t.Context(), h.call(o))
		require.ErrorIs(t, err, lifecycle.ErrNotFound, o)
		require.ErrorContains(t, err, h.ids[1].String(), "it says which")
		h.compare(t, w, "one of two is missing: "+o.String())

		o.Slots = nil
		require.NoError(t, b.try(t.Context(), h.call(o)), "nothing is asked of nothing")
		h.compare(t, w, "nothing")
	}
}

// TestDeletedStaysDeleted calls everything on what is gone: the id is never used again.
func TestDeletedStaysDeleted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := newHarness(b, 1)
	require.NoError(t, b.try(t.Context(), h.call(op{Call: "create", Slots: []int{0}})))
	h.forget(t, &world{Deployments: []*mDeployment{{Exists: true, Places: []*mPlace{{}}}}})
	for _, o := range matrixCalls {
		o.Slots = []int{0}
		err := b.try(t.Context(), h.call(o))
		switch o.Call {
		case "create":
			require.ErrorIs(t, err, lifecycle.ErrConflict)
		case "delete":
			require.NoError(t, err)
		default:
			require.ErrorIs(t, err, lifecycle.ErrNotFound)
		}
		require.Zero(t, b.count(t, "SELECT count(*) FROM berth.deployments"))
	}
	happened, err := b.client.Events(t.Context(), b.pool, h.ids[0], 0, 0)
	require.NoError(t, err)
	require.Equal(t, lifecycle.DeploymentDeleted, happened[len(happened)-1].Kind, "and nothing after it")
}

// TestCreateWhileTheOldOneGoes asks for an id again while the transaction that lets it go is not committed yet: the insert waits
// for it, and must not take the id over.
func TestCreateWhileTheOldOneGoes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := newHarness(b, 2)
	require.NoError(t, b.try(t.Context(), h.call(op{Call: "create", Slots: []int{1}})))
	require.NoError(t, b.try(t.Context(), h.call(op{Call: "delete", Slots: []int{1}})))
	place := h.place(t, 1, 0)
	h.claim(t, place)

	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	require.NoError(t, b.store(t.Context(), tx, h.ids[1], place, outcome{Phase: "absent", Met: true}))

	created := make(chan error, 1)
	go func() { created <- b.try(t.Context(), h.call(op{Call: "create", Slots: []int{0, 1}})) }()
	b.waits(t, "INSERT INTO berth.deployments")
	require.NoError(t, tx.Commit(t.Context()))
	require.ErrorIs(t, <-created, lifecycle.ErrConflict)
	require.Zero(t, b.count(t, "SELECT count(*) FROM berth.deployments"), "the other one of the refused call is not there either")
	require.Zero(t, b.count(t, "SELECT count(*) FROM berth.river_job WHERE tags && $1", []string{"deployment-" + h.ids[0].String()}))
}

// waits returns when a statement that begins so waits for a lock.
func (b *bundle) waits(t *testing.T, statement string) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("no statement waited for a lock"))
	defer cancel()
	for {
		var n int
		err := b.d.Pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'`, statement).Scan(&n)
		require.NoError(t, err)
		if n > 0 {
			return
		}
	}
}
