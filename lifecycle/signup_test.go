package lifecycle_test

import (
	"log/slog"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"berth/lifecycle"
)

// TestSignUp runs the example: once, again, and for a company that there is already.
func TestSignUp(t *testing.T) {
	t.Parallel()
	b := bare(t)
	b.exec(t, customersTable)
	b.register(t, staticA, configured(staticA, "runtime"))
	berth, err := lifecycle.NewClient("admin", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	id := uuid.New()
	require.NoError(t, signUp(t.Context(), b.pool, berth, "jane@example.com", "acme", id))
	d, err := berth.Get(t.Context(), b.pool, id)
	require.NoError(t, err)
	require.Equal(t, []any{"acme", "web", "prod", "running", "pending", 2}, []any{d.Organization, d.Project, d.Environment, d.DesiredState, d.State, d.Slots})
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM berth.river_job"))

	before := b.everything(t)
	require.ErrorContains(t, signUp(t.Context(), b.pool, berth, "jane@example.com", "other", uuid.New()), "customers_pkey")
	require.ErrorIs(t, signUp(t.Context(), b.pool, berth, "joe@example.com", "ACME", uuid.New()), lifecycle.ErrConflict)
	require.Equal(t, before, b.everything(t))
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM customers"))
}
