package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/lifecycle"
)

func (b *bundle) organization(t testing.TB, name string) lifecycle.Organization {
	t.Helper()
	o, err := b.client.OrganizationByName(t.Context(), b.pool, name)
	require.NoError(t, err)
	return o
}

// TestUpdateOwners changes what new deployments start from, each change twice. What exists stays as it is, and where it is.
func TestUpdateOwners(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(t, 2)
	b.register(t, "", configured("static-b", "runtime"))
	organization, elsewhere, none := b.organization(t, "acme"), "static-b", ""
	exists := func() (digest string) {
		t.Helper()
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT concat((SELECT string_agg(d::text, ',' ORDER BY d.id) FROM berth.deployments d),
			(SELECT string_agg(r::text, ',' ORDER BY r.id) FROM berth.provisioner_resources r), (SELECT max(id) FROM berth.river_job), (SELECT max(id) FROM berth.events))`).Scan(&digest))
		return digest
	}
	before := exists()

	want := organization
	for _, at := range []*string{&elsewhere, &none, &elsewhere} {
		want.DefaultProvisioner = *at
		for range 2 {
			o, err := b.client.UpdateOrganization(t.Context(), b.pool, organization.ID, lifecycle.OrganizationChange{DefaultProvisioner: at})
			require.NoError(t, err)
			require.Equal(t, want, o)
			require.Equal(t, want, b.organization(t, "acme"))
		}
	}

	p := b.project
	project := func(change lifecycle.ProjectChange) {
		t.Helper()
		for range 2 {
			b.do(t, func(ctx context.Context, tx pgx.Tx) error {
				got, err := b.client.UpdateProject(ctx, tx, p.ID, change)
				require.Equal(t, p, got)
				return err
			})
			got, err := b.client.ProjectByName(t.Context(), b.pool, "acme", "web")
			require.NoError(t, err)
			require.Equal(t, p, got)
		}
	}
	p.Provisioner = elsewhere
	project(lifecycle.ProjectChange{Provisioner: &elsewhere})
	p.Slots = 7
	project(lifecycle.ProjectChange{Slots: 7})
	p.Version = "2.0.0"
	project(lifecycle.ProjectChange{Version: "2.0.0"})
	p.Annotations = map[string]string{"plan": "more", "team": "blue"}
	project(lifecycle.ProjectChange{Annotations: map[string]string{"plan": "more", "team": "blue"}})
	p.Provisioner, p.Annotations = "", map[string]string{"team": "blue"}
	project(lifecycle.ProjectChange{Provisioner: &none, Forget: []string{"plan", "never-was"}})
	require.Equal(t, before, exists())

	id := uuid.New()
	b.do(t, func(ctx context.Context, tx pgx.Tx) error {
		return b.client.Create(ctx, tx, lifecycle.NewDeployment{ID: id, ProjectID: p.ID})
	})
	d, err := b.client.Get(t.Context(), b.pool, id)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(7, "2.0.0", elsewhere), fmt.Sprint(d.Slots, d.Version, d.Resources[0].Provisioner), "a new one starts from it, at the organization's provisioner")
}

// TestUpdateProjectByMany has many add an annotation each: none is lost.
func TestUpdateProjectByMany(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const many = 20
	var all sync.WaitGroup
	errs := make(chan error, many)
	for i := range many {
		all.Go(func() {
			errs <- b.try(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
				_, err := b.client.UpdateProject(ctx, tx, b.project.ID, lifecycle.ProjectChange{Annotations: map[string]string{fmt.Sprint("k", i): "v"}})
				return err
			})
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	p, err := b.client.ProjectByName(t.Context(), b.pool, "acme", "web")
	require.NoError(t, err)
	require.Len(t, p.Annotations, many+1)
}

// TestDeleteOwners deletes a project and an organization: not while there is a deployment, one on its way out included, and again
// without harm.
func TestDeleteOwners(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := newHarness(b, 1)
	organization := b.organization(t, "acme")
	calls := []call{
		func(ctx context.Context, tx pgx.Tx) error { return b.client.DeleteProject(ctx, tx, b.project.ID) },
		func(ctx context.Context, tx pgx.Tx) error {
			return b.client.DeleteOrganization(ctx, tx, organization.ID)
		},
	}
	refused := func(why string) {
		t.Helper()
		before := b.everything(t)
		for _, f := range calls {
			err := b.try(t.Context(), f)
			require.ErrorIs(t, err, lifecycle.ErrConflict)
			require.ErrorContains(t, err, why)
		}
		require.Equal(t, before, b.everything(t))
	}
	require.NoError(t, b.try(t.Context(), h.call(op{Call: "create", Slots: []int{0}})))
	refused("it has 1 deployment: delete what")
	require.NoError(t, b.try(t.Context(), h.call(op{Call: "delete", Slots: []int{0}})))
	refused("it has 1 deployment, being deleted already: try again when that is gone")
	h.forget(t, &world{Deployments: []*mDeployment{{Exists: true, Places: []*mPlace{{}}}}})

	b.do(t, func(ctx context.Context, tx pgx.Tx) error {
		_, err := b.client.CreateProject(ctx, tx, lifecycle.NewProject{OrganizationID: organization.ID, Name: "other"})
		return err
	})
	for range 2 {
		b.do(t, calls[0])
		require.Equal(t, 1, b.count(t, "SELECT count(*) FROM berth.projects"), "the other one is left alone")
	}
	for range 2 {
		b.do(t, calls[1])
		require.Zero(t, b.count(t, "SELECT (SELECT count(*) FROM berth.projects) + (SELECT count(*) FROM berth.organizations)"), "its projects go with it")
	}
}

// TestDeleteOwnersWhileTheyAreUsed deletes a project or its organization while others make deployments and projects in it, at each
// level of isolation: either it stays, or what comes too late is refused. Nobody meets a key that the database refuses.
func TestDeleteOwnersWhileTheyAreUsed(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.wide(t, 4)
			for round := range 20 {
				name := fmt.Sprint("o", round)
				var organization lifecycle.Organization
				var project lifecycle.Project
				b.do(t, func(ctx context.Context, tx pgx.Tx) (err error) {
					if organization, err = b.client.CreateOrganization(ctx, tx, name, ""); err != nil {
						return err
					}
					project, err = b.client.CreateProject(ctx, tx, lifecycle.NewProject{OrganizationID: organization.ID, Name: "p"})
					return err
				})
				calls := []call{
					func(ctx context.Context, tx pgx.Tx) error {
						return b.client.DeleteOrganization(ctx, tx, organization.ID)
					},
					func(ctx context.Context, tx pgx.Tx) error { return b.client.DeleteProject(ctx, tx, project.ID) },
					func(ctx context.Context, tx pgx.Tx) error {
						return b.client.Create(ctx, tx, lifecycle.NewDeployment{ID: uuid.New(), ProjectID: project.ID})
					},
					func(ctx context.Context, tx pgx.Tx) error {
						_, err := b.client.CreateProject(ctx, tx, lifecycle.NewProject{OrganizationID: organization.ID, Name: "q"})
						return err
					},
				}
				errs := make([]error, len(calls))
				var all sync.WaitGroup
				for i, f := range calls {
					all.Go(func() { errs[i] = b.strict(t.Context(), level, f) })
				}
				all.Wait()
				for i, err := range errs {
					if i < 2 && err != nil {
						require.ErrorIs(t, err, lifecycle.ErrConflict)
					} else if err != nil {
						require.ErrorIs(t, err, lifecycle.ErrNotFound)
					}
				}
				there := b.count(t, "SELECT count(*) FROM berth.deployments WHERE project_id = $1", project.ID)
				require.Equal(t, there == 0, errors.Is(errs[2], lifecycle.ErrNotFound), "a deployment that was made is there")
				require.Equal(t, there, b.count(t, "SELECT count(*) FROM berth.projects WHERE id = $1", project.ID), "and so is its project")
			}
		})
	}
}
