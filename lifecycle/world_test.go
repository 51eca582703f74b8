package lifecycle_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/lifecycle"
	"berth/provisioner"
)

// harness does to the database what the model does to itself.
type harness struct {
	*bundle
	ids    []uuid.UUID // of the deployments, in order
	places map[uuid.UUID]string
	jobs   int64 // the last that was looked at
	events int64
}

// failer is what both testing and rapid offer.
type failer interface {
	require.TestingT
	Context() context.Context
	Fatalf(format string, args ...any)
}

func newHarness(b *bundle, n int) *harness {
	h := &harness{bundle: b, ids: newIDs(n), places: map[uuid.UUID]string{}}
	slices.SortFunc(h.ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	return h
}

// call is the operation as a call of the client. The order of its ids is turned around: it must not matter.
func (h *harness) call(o op) call {
	var ids []uuid.UUID
	for _, i := range o.Slots {
		ids = append(ids, h.ids[i])
	}
	slices.Reverse(ids)
	return func(ctx context.Context, tx pgx.Tx) error {
		switch o.Call {
		case "create":
			return h.client.Create(ctx, tx, h.news(ids)...)
		case "start":
			return h.client.Start(ctx, tx, ids...)
		case "stop":
			return h.client.Stop(ctx, tx, ids...)
		case "restart":
			return h.client.Restart(ctx, tx, ids...)
		case "update":
			return h.client.Update(ctx, tx, lifecycle.Change{Slots: o.Size}, ids...)
		case "delete":
			return h.client.Delete(ctx, tx, ids...)
		case "add":
			n := database(o.Name)
			n.Args = fmt.Appendf(nil, `{"size": %d}`, o.Size)
			return h.client.AddResource(ctx, tx, n, ids...)
		case "remove":
			return h.client.RemoveResource(ctx, tx, "database", o.Name, ids...)
		}
		return fmt.Errorf("no call %q", o.Call)
	}
}

// load reads what the model predicts. Jobs and events are those since the last time.
func (h *harness) load(t failer) *world {
	w := newWorld(len(h.ids))
	index := map[uuid.UUID]int{}
	for i, id := range h.ids {
		index[id] = i
	}
	rows, err := h.pool.Query(t.Context(), "SELECT id, desired_state, state FROM berth.deployments WHERE id = ANY($1)", h.ids)
	require.NoError(t, err)
	var id uuid.UUID
	var desired, state string
	_, err = pgx.ForEachRow(rows, []any{&id, &desired, &state}, func() error {
		d := w.Deployments[index[id]]
		d.Exists, d.Desired, d.State = true, desired, state
		return nil
	})
	require.NoError(t, err)

	rows, err = h.pool.Query(t.Context(), `SELECT id, deployment_id, provisioner, type, name, desired_phase, phase, args, generation, claimed_generation,
		intent_generation, observed_generation, failures, lost, given_up_at IS NOT NULL, fence IS NOT NULL, retry_at IS NOT NULL,
		CASE WHEN deadline_at IS NULL THEN 'none' WHEN deadline_at > clock_timestamp() THEN 'ahead' ELSE 'past' END, reason
		FROM berth.provisioner_resources WHERE deployment_id = ANY($1) ORDER BY id`, h.ids)
	require.NoError(t, err)
	var p mPlace
	var of uuid.UUID
	var args []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &of, &p.Provisioner, &p.Type, &p.Name, &p.Desired, &p.Phase, &args, &p.Generation, &p.Claimed,
		&p.Intent, &p.Observed, &p.Failures, &p.Lost, &p.GivenUp, &p.Leased, &p.Due, &p.Deadline, &p.Reason}, func() error {
		q := p
		q.Args = canonical(t, p.Type, args)
		h.places[id] = fmt.Sprintf("%02d %s", index[of], q.label())
		d := w.Deployments[index[of]]
		d.Places = append(d.Places, &q)
		return nil
	})
	require.NoError(t, err)

	w.Jobs = h.newJobs(t)
	rows, err = h.pool.Query(t.Context(), `SELECT id, deployment_id, kind, detail ->> 'old', detail ->> 'new', actor FROM berth.events
		WHERE id > $1 AND deployment_id = ANY($2) ORDER BY id`, h.events, h.ids)
	require.NoError(t, err)
	var kind, actor string
	var was, is *string
	_, err = pgx.ForEachRow(rows, []any{&h.events, &of, &kind, &was, &is, &actor}, func() error {
		require.Equal(t, "tester", actor)
		if kind == lifecycle.StateChanged {
			kind += " " + *was + ">" + *is
		}
		w.event(index[of], "%s", kind)
		return nil
	})
	require.NoError(t, err)
	return w
}

func (h *harness) newJobs(t failer) []string {
	var out []string
	rows, err := h.pool.Query(t.Context(), `SELECT id, kind, queue, priority, tags, args, (args ->> 'resource_id')::uuid FROM berth.river_job
		WHERE id > $1 AND tags && $2 ORDER BY id`, h.jobs, tagsOf(h.ids))
	require.NoError(t, err)
	var kind, queue string
	var priority int
	var tags []string
	var args []byte
	var id uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&h.jobs, &kind, &queue, &priority, &tags, &args, &id}, func() error {
		label := h.places[id]
		var i int
		var rest string
		_, err := fmt.Sscanf(label, "%d %s", &i, &rest)
		require.NoError(t, err, "a job for a place that was never seen: %s", args)
		where := map[bool]string{true: staticA, false: baseA}[rest == "runtime/"]
		require.Equal(t, []string{"provisioner-" + where, "deployment-" + h.ids[i].String()}, tags)
		require.JSONEq(t, fmt.Sprintf(`{"resource_id": %q, "provisioner": %q}`, id, where), string(args), "ids and nothing else")
		out = append(out, fmt.Sprintf("%s %s queue %s priority %d", label, kind, queue, priority))
		return nil
	})
	require.NoError(t, err)
	slices.Sort(out)
	return out
}

func tagsOf(ids []uuid.UUID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = "deployment-" + id.String()
	}
	return out
}

func canonical(t failer, typ string, args []byte) string {
	if typ == "runtime" {
		a, err := provisioner.Decode[provisioner.RuntimeArgs](args)
		require.NoError(t, err)
		return string(provisioner.Encode(a))
	}
	var b bytes.Buffer
	require.NoError(t, json.Compact(&b, args))
	return b.String()
}

// compare requires that the database is as the model says, and starts a new page for jobs and events.
func (h *harness) compare(t failer, w *world, after string) {
	got := h.load(t)
	slices.SortStableFunc(w.Events, func(a, b string) int { return strings.Compare(a[:2], b[:2]) })
	slices.SortStableFunc(got.Events, func(a, b string) int { return strings.Compare(a[:2], b[:2]) })
	if diff := cmp.Diff(w, got, cmpopts.IgnoreUnexported(world{}, mDeployment{}, mPlace{}), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("after %s: model (-) and database (+) differ:\n%s", after, diff)
	}
	w.Jobs, w.Events = nil, nil
	for _, d := range got.Deployments {
		for _, p := range d.Places {
			if p.Claimed < p.Generation && !p.Due {
				t.Fatalf("after %s: %s is to be driven and nobody would notice if its job were lost", after, p.label())
			}
			if p.Generation > p.Claimed+1 {
				t.Fatalf("after %s: %s has two runs that have not begun", after, p.label())
			}
		}
	}
}

// place is the id of the n-th place of a deployment.
func (h *harness) place(t failer, i, n int) (id uuid.UUID) {
	require.NoError(t, h.pool.QueryRow(t.Context(), "SELECT id FROM berth.provisioner_resources WHERE deployment_id = $1 ORDER BY id OFFSET $2 LIMIT 1", h.ids[i], n).Scan(&id))
	return id
}

// claim writes what a run writes when it begins.
func (h *harness) claim(t failer, id uuid.UUID) {
	_, err := h.pool.Exec(t.Context(), `UPDATE berth.provisioner_resources SET claimed_generation = generation, fence = gen_random_uuid(), leased_by = gen_random_uuid(),
		leased_until = clock_timestamp() + interval '1 minute' WHERE id = $1 AND claimed_generation < generation`, id)
	require.NoError(t, err)
}

// finish writes what a run writes when it ends, in the engine's order: deployment, place, what follows.
func (h *harness) finish(t failer, i int, id uuid.UUID, o outcome) {
	err := h.try(t.Context(), func(ctx context.Context, tx pgx.Tx) error { return h.store(ctx, tx, h.ids[i], id, o) })
	require.NoError(t, err)
}

// store is an outcome, in the engine's order: deployment, place, what follows.
func (b *bundle) store(ctx context.Context, tx pgx.Tx, deployment, id uuid.UUID, o outcome) error {
	if _, err := tx.Exec(ctx, "SELECT FROM berth.deployments WHERE id = $1 FOR UPDATE", deployment); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `UPDATE berth.provisioner_resources p SET fence = NULL, leased_by = NULL, leased_until = NULL, lost = 0,
			phase = CASE WHEN $2 = 'unknown' THEN phase ELSE $2 END, reason = CASE WHEN c THEN $3 ELSE reason END,
			observed_generation = CASE WHEN c AND $4 THEN claimed_generation ELSE observed_generation END,
			failures = CASE WHEN NOT c THEN failures WHEN $4 THEN 0 ELSE failures + $5::boolean::int END,
			failing_since = CASE WHEN NOT c THEN failing_since WHEN $4 THEN NULL WHEN $5 THEN coalesce(failing_since, now()) ELSE failing_since END,
			given_up_at = CASE WHEN NOT c THEN given_up_at WHEN $4 THEN NULL WHEN $6 THEN coalesce(given_up_at, now()) ELSE given_up_at END,
			deadline_at = CASE WHEN NOT c THEN deadline_at WHEN $4 OR $3 = 'NoCapacity' OR desired_phase <> 'ready' THEN NULL
				ELSE coalesce(deadline_at, now() + interval '5 minutes') END,
			retry_at = CASE WHEN generation > claimed_generation OR NOT $4 THEN now() + interval '5 seconds' END
		FROM (SELECT claimed_generation >= intent_generation AS c FROM berth.provisioner_resources WHERE id = $1) AS o WHERE p.id = $1`,
		id, o.Phase, o.Reason, o.Met, o.Failed, o.GivenUp)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `DELETE FROM berth.provisioner_resources WHERE id = $1 AND desired_phase = 'absent' AND phase = 'absent'
		AND claimed_generation >= intent_generation AND observed_generation >= intent_generation`, id); err != nil {
		return err
	}
	return b.client.Settle(ctx, tx, []uuid.UUID{deployment}, nil, nil)
}
