package lifecycle_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/lifecycle"
)

// Asked twice, a pause is one, with one event that says who asked; and so is its end.
func TestPauseIsRepeatSafe(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.create(t, 1)[0]
	of := func(kind string) int {
		return b.count(t, "SELECT count(*) FROM berth.events WHERE kind = $1 AND actor = 'tester'", kind)
	}
	get := func() lifecycle.Deployment {
		got, err := b.client.Get(t.Context(), b.pool, d)
		require.NoError(t, err)
		return got
	}
	runtime := get().Resources[1]
	require.Equal(t, "runtime", runtime.Type)
	steps := []struct {
		call                      call
		kind                      string
		reason, message, database string // that the deployment shows, and its database
	}{
		{func(ctx context.Context, tx pgx.Tx) error { return b.client.PauseProvisioner(ctx, tx, staticA) }, lifecycle.ProvisionerPaused,
			"ProvisionerPaused", "provisioner static-a is paused: resume it with worker provisioner resume static-a", ""},
		{func(ctx context.Context, tx pgx.Tx) error { return b.client.PauseResource(ctx, tx, runtime.ID) }, lifecycle.ResourcePaused,
			"Paused", "the resource is paused: resume it with worker resource resume " + runtime.ID.String(), ""},
		{func(ctx context.Context, tx pgx.Tx) error { return b.client.ResumeProvisioner(ctx, tx, staticA) }, lifecycle.ProvisionerResumed,
			"Paused", "the resource is paused: resume it with worker resource resume " + runtime.ID.String(), ""},
		{func(ctx context.Context, tx pgx.Tx) error {
			return b.client.ResumeResource(ctx, tx, runtime.ID, runtime.ID)
		}, lifecycle.ResourceResumed, "", "", ""},
		{func(ctx context.Context, tx pgx.Tx) error { return b.client.PauseProvisioner(ctx, tx, baseA) }, lifecycle.ProvisionerPaused, "", "", "ProvisionerPaused"},
	}
	for _, s := range steps {
		before := of(s.kind)
		b.do(t, s.call)
		b.do(t, s.call)
		require.Equal(t, before+1, of(s.kind), s.kind)
		got := get()
		require.Equal(t, s.reason, got.Reason, s.kind)
		require.Equal(t, s.message, got.Message, s.kind)
		require.Equal(t, s.reason, got.Resources[1].Reason, s.kind)
		require.Equal(t, s.message, got.Resources[1].Message, s.kind)
		require.Equal(t, s.database, got.Resources[0].Reason, s.kind)
		require.Equal(t, s.reason == "Paused", got.Resources[1].PausedAt != nil, s.kind)
		require.Equal(t, lifecycle.Pending, got.State, "a pause changes no state")
	}
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM berth.events WHERE kind = 'ResourcePaused' AND deployment_id = $1 AND resource_id = $2", d, runtime.ID))
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM berth.events WHERE kind = 'ProvisionerResumed' AND deployment_id IS NULL AND detail ->> 'provisioner' = 'static-a'"))
}

// It is the caller's transaction: what is rolled back was never paused.
func TestPauseIsRolledBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.create(t, 1)[0]
	got, err := b.client.Get(t.Context(), b.pool, d)
	require.NoError(t, err)
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, b.client.PauseProvisioner(t.Context(), tx, staticA))
	require.NoError(t, b.client.PauseResource(t.Context(), tx, got.Resources[0].ID))
	require.NoError(t, tx.Rollback(t.Context()))
	require.Zero(t, b.count(t, "SELECT (SELECT count(*) FROM berth.provisioners WHERE paused_at IS NOT NULL) + (SELECT count(*) FROM berth.provisioner_resources WHERE paused_at IS NOT NULL) + (SELECT count(*) FROM berth.events WHERE kind LIKE '%Paused')"))
}

// What is as it was wished, what can never be, and what is on its way out does not say that a pause holds it: nothing is held.
func TestPauseThatHoldsNothing(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]struct{ sql, reason string }{
		"settled":           {"claimed_generation = 1, observed_generation = 1, phase = 'ready'", ""},
		"settled and woken": {"claimed_generation = 1, observed_generation = 1, phase = 'ready', generation = 2", "Paused"},
		"broken":            {"claimed_generation = 1, observed_generation = 1, phase = 'pending', reason = 'Crashed'", "Paused"},
		"given up":          {"claimed_generation = 1, given_up_at = now(), reason = 'Invalid'", "Invalid"},
		"on its way out":    {"desired_phase = 'absent', reason = 'Terminating'", "Terminating"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			d := newIDs(1)
			b.do(t, func(ctx context.Context, tx pgx.Tx) error { return b.client.Create(ctx, tx, b.news(d)...) })
			b.exec(t, "UPDATE berth.provisioner_resources SET paused_at = now(), "+set.sql)
			got, err := b.client.Get(t.Context(), b.pool, d[0])
			require.NoError(t, err)
			require.Equal(t, set.reason, got.Reason)
			require.Equal(t, set.reason, got.Resources[0].Reason)
		})
	}
}

func TestPauseRefusals(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.create(t, 2)
	deleted, err := b.client.Get(t.Context(), b.pool, ids[1])
	require.NoError(t, err)
	here, err := b.client.Get(t.Context(), b.pool, ids[0])
	require.NoError(t, err)
	b.do(t, func(ctx context.Context, tx pgx.Tx) error { return b.client.Delete(ctx, tx, ids[1]) })
	debt := uuid.New()
	b.exec(t, `INSERT INTO berth.provisioner_resources (id, provisioner, type, desired_phase, args) VALUES ($1, 'static-a', 'runtime', 'absent', '{}')`, debt)
	kept := here.Resources[0].ID
	for name, c := range map[string]struct {
		kind  error
		names string
		call  func(pause func(context.Context, pgx.Tx, ...uuid.UUID) error, of func(context.Context, pgx.Tx, string) error) call
	}{
		"a provisioner that nobody knows": {lifecycle.ErrNotFound, `"nobody"`, func(_ func(context.Context, pgx.Tx, ...uuid.UUID) error, of func(context.Context, pgx.Tx, string) error) call {
			return func(ctx context.Context, tx pgx.Tx) error { return of(ctx, tx, "nobody") }
		}},
		"what can be no provisioner": {lifecycle.ErrNotFound, `"a\x00b"`, func(_ func(context.Context, pgx.Tx, ...uuid.UUID) error, of func(context.Context, pgx.Tx, string) error) call {
			return func(ctx context.Context, tx pgx.Tx) error { return of(ctx, tx, "a\x00b") }
		}},
		"a resource that is not there": {lifecycle.ErrNotFound, uuid.Max.String(), func(pause func(context.Context, pgx.Tx, ...uuid.UUID) error, _ func(context.Context, pgx.Tx, string) error) call {
			return func(ctx context.Context, tx pgx.Tx) error { return pause(ctx, tx, kept, uuid.Max) }
		}},
		"a debt": {lifecycle.ErrConflict, debt.String(), func(pause func(context.Context, pgx.Tx, ...uuid.UUID) error, _ func(context.Context, pgx.Tx, string) error) call {
			return func(ctx context.Context, tx pgx.Tx) error { return pause(ctx, tx, kept, debt) }
		}},
		"what is being deleted": {lifecycle.ErrConflict, ids[1].String(), func(pause func(context.Context, pgx.Tx, ...uuid.UUID) error, _ func(context.Context, pgx.Tx, string) error) call {
			return func(ctx context.Context, tx pgx.Tx) error { return pause(ctx, tx, kept, deleted.Resources[0].ID) }
		}},
	} {
		for _, f := range []call{c.call(b.client.PauseResource, b.client.PauseProvisioner), c.call(b.client.ResumeResource, b.client.ResumeProvisioner)} {
			err := b.try(t.Context(), f)
			require.ErrorIs(t, err, c.kind, name)
			require.ErrorContains(t, err, c.names, name)
			var typed *lifecycle.Error
			require.ErrorAs(t, err, &typed, name)
			require.NotEmpty(t, typed.Remedy, name)
		}
	}
	require.Zero(t, b.count(t, "SELECT count(*) FROM berth.provisioner_resources WHERE paused_at IS NOT NULL"), "nothing was changed")
	b.do(t, func(ctx context.Context, tx pgx.Tx) error { return b.client.PauseResource(ctx, tx) })
}

// Time stands still from the first of two pauses that overlap to the end of the last, and no intent of meanwhile has more time
// than any other.
func TestDeadlineStandsStill(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string]struct {
		steps string // R and P pause the resource and the provisioner, r and p end that; a minute passes with each
		left  int    // minutes that are left in the end, of ten with which it began, where nothing passes but under a pause
	}{
		"provisioner":                   {"P...p", 10},
		"resource":                      {"R...r", 10},
		"twice":                         {"P.p.R..r", 9},
		"one within the other":          {"P.R.r.p", 10},
		"the other way":                 {"R.P.p.r", 10},
		"overlapping":                   {"P.R.p.r", 10},
		"overlapping, the other way":    {"R.P.r.p", 10},
		"and with some time in between": {"R.P.r.p..P.R.p.r.", 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			d := newIDs(1)
			b.do(t, func(ctx context.Context, tx pgx.Tx) error { return b.client.Create(ctx, tx, b.news(d)...) })
			b.exec(t, "UPDATE berth.provisioners SET timeout = '1 hour'")
			b.exec(t, "UPDATE berth.provisioner_resources SET deadline_at = clock_timestamp() + interval '10 minutes'")
			got, err := b.client.Get(t.Context(), b.pool, d[0])
			require.NoError(t, err)
			id := got.Resources[0].ID
			for _, s := range steps.steps {
				b.do(t, func(ctx context.Context, tx pgx.Tx) error {
					switch s {
					case 'R':
						return b.client.PauseResource(ctx, tx, id)
					case 'r':
						return b.client.ResumeResource(ctx, tx, id)
					case 'P':
						return b.client.PauseProvisioner(ctx, tx, staticA)
					case 'p':
						return b.client.ResumeProvisioner(ctx, tx, staticA)
					}
					// A minute passes: everything else was a minute earlier.
					if _, err := tx.Exec(ctx, "UPDATE berth.provisioner_resources SET deadline_at = deadline_at - interval '1 minute', paused_at = paused_at - interval '1 minute'"); err != nil {
						return err
					}
					_, err := tx.Exec(ctx, "UPDATE berth.provisioners SET paused_at = paused_at - interval '1 minute'")
					return err
				})
			}
			left := b.count(t, "SELECT round(extract(epoch FROM deadline_at - clock_timestamp()) / 60)::int FROM berth.provisioner_resources")
			require.Equal(t, steps.left, left)
		})
	}
	t.Run("asked meanwhile", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.do(t, func(ctx context.Context, tx pgx.Tx) error { return b.client.PauseProvisioner(ctx, tx, staticA) })
		b.exec(t, "UPDATE berth.provisioners SET paused_at = paused_at - interval '1 hour'")
		b.create(t, 1)
		b.do(t, func(ctx context.Context, tx pgx.Tx) error { return b.client.ResumeProvisioner(ctx, tx, staticA) })
		require.Equal(t, 5, b.count(t, "SELECT round(extract(epoch FROM deadline_at - clock_timestamp()) / 60)::int FROM berth.provisioner_resources WHERE type = 'runtime'"))
	})
}
