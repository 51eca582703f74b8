package lifecycle_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"berth/lifecycle"
)

// tracer counts round trips.
type tracer struct{ statements atomic.Int64 }

func (c *tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.statements.Add(1)
	return ctx
}

func (*tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (c *tracer) TraceCopyFromStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceCopyFromStartData) context.Context {
	c.statements.Add(1)
	return ctx
}

func (*tracer) TraceCopyFromEnd(context.Context, *pgx.Conn, pgx.TraceCopyFromEndData) {}

func (c *tracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	c.statements.Add(int64(data.Batch.Len()))
	return ctx
}

func (*tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (*tracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// TestRoundTrips makes each call for one id and for 5,000: it takes as many statements, and few.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	b := setup(t)
	config, err := pgxpool.ParseConfig(b.d.URL)
	require.NoError(t, err)
	counter := &tracer{}
	config.ConnConfig.Tracer = counter
	config.MaxConns = 1
	b.pool, err = pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	defer b.pool.Close()

	const most = 14 // begin and commit included
	one, many := newIDs(1), newIDs(5000)
	calls := []struct {
		name string
		call func(context.Context, pgx.Tx, []uuid.UUID) error
	}{
		{"create", func(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) error {
			return b.client.Create(ctx, tx, b.news(ids)...)
		}},
		{"create again", func(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) error {
			return b.client.Create(ctx, tx, b.news(ids)...)
		}},
		{"add", func(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) error {
			return b.client.AddResource(ctx, tx, database(""), ids...)
		}},
		{"add again", func(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) error {
			return b.client.AddResource(ctx, tx, database(""), ids...)
		}},
		{"stop", func(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) error { return b.client.Stop(ctx, tx, ids...) }},
		{"start", func(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) error { return b.client.Start(ctx, tx, ids...) }},
		{"start again", func(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) error { return b.client.Start(ctx, tx, ids...) }},
		{"restart", func(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) error { return b.client.Restart(ctx, tx, ids...) }},
		{"update", func(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) error {
			return b.client.Update(ctx, tx, lifecycle.Change{Slots: 3, Annotations: map[string]string{"a": "b"}}, ids...)
		}},
		{"remove", func(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) error {
			return b.client.RemoveResource(ctx, tx, "database", "", ids...)
		}},
		{"delete", func(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) error { return b.client.Delete(ctx, tx, ids...) }},
		{"delete again", func(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) error { return b.client.Delete(ctx, tx, ids...) }},
	}
	b.create(t, 1) // the first insert of all asks for the server's version as well
	for _, c := range calls {
		start := time.Now()
		took := map[int]int64{}
		for _, ids := range [][]uuid.UUID{one, many} {
			before := counter.statements.Load()
			b.do(t, func(ctx context.Context, tx pgx.Tx) error { return c.call(ctx, tx, ids) })
			took[len(ids)] = counter.statements.Load() - before
		}
		require.Equal(t, took[1], took[5000], c.name)
		require.LessOrEqual(t, took[1], int64(most), c.name)
		t.Logf("%s: %d statements %v", c.name, took[1], time.Since(start))
	}
	require.Equal(t, 5001, b.count(t, "SELECT count(*) FROM berth.deployments WHERE state = 'deleting'"))
	require.Equal(t, 10002, b.count(t, "SELECT count(*) FROM berth.provisioner_resources WHERE desired_phase = 'absent' AND generation = 1 AND retry_at IS NOT NULL"),
		"nothing was claimed in between, so nothing is to be run more than once")

	// One of them is missing: nothing is done, and it is found at once.
	stranger := uuid.New()
	err = b.try(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		return b.client.Delete(ctx, tx, slices.Concat(many, []uuid.UUID{stranger})...)
	})
	require.ErrorIs(t, err, lifecycle.ErrNotFound)
	require.ErrorContains(t, err, stranger.String())
}

// TestListing pages through deployments in the order of their ids.
func TestListing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.create(t, 7)
	b.do(t, func(ctx context.Context, tx pgx.Tx) error {
		o, err := b.client.CreateOrganization(ctx, tx, "Other", "")
		if err != nil {
			return err
		}
		p, err := b.client.CreateProject(ctx, tx, lifecycle.NewProject{OrganizationID: o.ID, Name: "Web"})
		if err != nil {
			return err
		}
		return b.client.Create(ctx, tx, lifecycle.NewDeployment{ID: uuid.Max, ProjectID: p.ID, Environment: "dev", Annotations: map[string]string{"k": "v"}})
	})
	b.do(t, func(ctx context.Context, tx pgx.Tx) error { return b.client.Delete(ctx, tx, ids[0]) })
	list := func(f lifecycle.Filter) (out []uuid.UUID) {
		t.Helper()
		ds, err := b.client.List(t.Context(), b.pool, f)
		require.NoError(t, err)
		for _, d := range ds {
			out = append(out, d.ID)
		}
		return out
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	everything := slices.Concat(ids, []uuid.UUID{uuid.Max})
	require.Equal(t, everything, list(lifecycle.Filter{}))
	require.Equal(t, everything[:3], list(lifecycle.Filter{Limit: 3}))
	require.Equal(t, everything[3:6], list(lifecycle.Filter{Limit: 3, After: everything[2]}))
	require.Empty(t, list(lifecycle.Filter{After: uuid.Max}))
	require.Equal(t, ids, list(lifecycle.Filter{Organization: "ACME", Project: "WEB"}), "in any case")
	require.Equal(t, everything, list(lifecycle.Filter{Project: "web"}), "of any organization")
	require.Equal(t, everything[7:], list(lifecycle.Filter{Organization: "other"}))
	require.Len(t, list(lifecycle.Filter{State: lifecycle.Deleting}), 1)
	require.Equal(t, everything, list(lifecycle.Filter{Provisioner: staticA}))
	require.Empty(t, list(lifecycle.Filter{Provisioner: baseA}), "the runtime's")
	require.Empty(t, list(lifecycle.Filter{Organization: "nobody"}))

	d, err := b.client.Get(t.Context(), b.pool, uuid.Max)
	require.NoError(t, err)
	require.Equal(t, "Other Web dev", fmt.Sprint(d.Organization, " ", d.Project, " ", d.Environment))
	require.Len(t, d.Resources, 1)
	require.JSONEq(t, `{"slots": 1, "version": "latest", "environment": "dev", "annotations": {"organization": "Other", "project": "Web", "k": "v"}}`, string(d.Resources[0].Args))
	organizations, err := b.client.Organizations(t.Context(), b.pool, "", 0)
	require.NoError(t, err)
	require.Len(t, organizations, 2)
	projects, err := b.client.Projects(t.Context(), b.pool, "", "", 0)
	require.NoError(t, err)
	require.Len(t, projects, 2)
	p, err := b.client.ProjectByName(t.Context(), b.pool, "OTHER", "wEB")
	require.NoError(t, err)
	require.Equal(t, projects[1], p)
}
