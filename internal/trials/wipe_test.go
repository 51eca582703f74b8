package trials

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"berth/db/dbtest"
	"berth/lifecycle"
)

// Nothing rests on a job: all are deleted, again and again, while deployments are made and change their minds.
func TestAllJobsDeleted(t *testing.T) {
	t.Parallel()
	f := begin(t, dbtest.New(t), both(t, 200*times(1), 20*time.Millisecond))
	// The queue stores that jobs are done in another order than they are deleted here. It tries again.
	f.deadlocks, f.expected = true, []string{"Completer error (will retry"}
	end := f.guard()
	f.start()
	f.start()
	var ids []uuid.UUID
	wipe := func() int {
		for {
			tag, err := f.Pool.Exec(t.Context(), `DELETE FROM berth.river_job`)
			var pg *pgconn.PgError
			if errors.As(err, &pg) && pg.Code == "40P01" { // it was the victim
				continue
			}
			require.NoError(t, err)
			return int(tag.RowsAffected())
		}
	}
	wiped := 0
	for range times(20) {
		ids = append(ids, f.createAll(10)...)
		wiped += wipe()
		some := make([]uuid.UUID, len(ids)/2)
		for i, n := range rand.Perm(len(ids))[:len(some)] {
			some[i] = ids[n]
		}
		f.change([]change{(*lifecycle.Client).Stop, (*lifecycle.Client).Start, (*lifecycle.Client).Restart}[rand.N(3)], some...)
		<-time.After(rand.N(20 * time.Millisecond)) // any moment
		wiped += wipe()
	}
	last := time.Now()
	f.none(`SELECT count(*) FROM berth.deployments WHERE state <> desired_state`)
	took := time.Since(last)
	t.Logf("%d jobs deleted; as wished %v after the last time", wiped, took)
	require.Positive(t, wiped)
	require.Less(t, took, 10*time.Second)
	f.check()
	f.change((*lifecycle.Client).Delete, ids...)
	wipe()
	f.nothing()
	end()
}
