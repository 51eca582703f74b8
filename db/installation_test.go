package db_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"berth/db"
	"berth/db/dbtest"
)

// Each database is an installation of its own, and stays the one that it is.
func TestInstallation(t *testing.T) {
	t.Parallel()
	ids := map[string]bool{}
	for range 2 {
		pool := dbtest.NewEmpty(t).Pool
		require.NoError(t, db.Migrate(t.Context(), pool))
		id, err := db.Installation(t.Context(), pool)
		require.NoError(t, err)
		require.Regexp(t, `\A[0-9a-f]{32}\z`, id)
		require.NoError(t, db.Migrate(t.Context(), pool))
		again, err := db.Installation(t.Context(), pool)
		require.NoError(t, err)
		require.Equal(t, id, again)
		ids[id] = true

		_, err = pool.Exec(t.Context(), "INSERT INTO berth.installation (id) VALUES (gen_random_uuid())")
		require.ErrorContains(t, err, "installation_one_idx", "there is one")
		_, err = pool.Exec(t.Context(), "DELETE FROM berth.installation")
		require.NoError(t, err)
		_, err = db.Installation(t.Context(), pool)
		require.ErrorContains(t, err, "put back the row of berth.installation")
	}
	require.Len(t, ids, 2, "each has its own")
}
