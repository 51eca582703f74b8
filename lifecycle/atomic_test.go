package lifecycle_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/lifecycle"
)

// TestAllOrNothing rolls back what was done in every way, in one transaction with the caller's own table.
func TestAllOrNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.create(t, 3)
	b.exec(t, "CREATE TABLE customers (name text PRIMARY KEY, deployment_id uuid)")
	before := b.everything(t)
	errThought := errors.New("a second thought")
	fresh := uuid.New()
	everything := func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO customers VALUES ('jane', $1)", fresh); err != nil {
			return err
		}
		o, err := b.client.CreateOrganization(ctx, tx, "other", staticA)
		if err != nil {
			return err
		}
		p, err := b.client.CreateProject(ctx, tx, lifecycle.NewProject{OrganizationID: o.ID, Name: "shop"})
		if err != nil {
			return err
		}
		return errors.Join(
			b.client.Create(ctx, tx, lifecycle.NewDeployment{ID: fresh, ProjectID: p.ID}),
			b.client.AddResource(ctx, tx, database(""), fresh),
			b.client.Stop(ctx, tx, ids...),
			b.client.Start(ctx, tx, ids...),
			b.client.Restart(ctx, tx, ids...),
			b.client.Update(ctx, tx, lifecycle.Change{Slots: 4}, ids...),
			b.client.RemoveResource(ctx, tx, "database", "", ids...),
			b.client.Delete(ctx, tx, ids[0]),
			b.client.RegisterProvisioners(ctx, tx, []lifecycle.Configured{configured("new", "runtime")}, ""),
		)
	}
	err := b.try(t.Context(), func(ctx context.Context, tx pgx.Tx) error { return errors.Join(everything(ctx, tx), errThought) })
	require.ErrorIs(t, err, errThought)
	require.Equal(t, before, b.everything(t))
	require.Zero(t, b.count(t, "SELECT count(*) FROM customers"))

	// The same once more, and this time the caller's own statement fails at the end.
	err = b.try(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		if err := everything(ctx, tx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "INSERT INTO customers VALUES ('jane')")
		return err
	})
	require.ErrorContains(t, err, "customers_pkey")
	require.Equal(t, before, b.everything(t))

	// A savepoint of the caller's own takes back as much as it covers.
	b.do(t, func(ctx context.Context, tx pgx.Tx) error {
		inner, err := tx.Begin(ctx)
		if err != nil {
			return err
		}
		return errors.Join(everything(ctx, inner), inner.Rollback(ctx))
	})
	require.Equal(t, before, b.everything(t))

	b.do(t, everything)
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM customers c JOIN berth.deployments d ON d.id = c.deployment_id"))
}
