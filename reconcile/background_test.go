package reconcile

import (
	"context"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/db/dbtest"
	"berth/internal/defaults"
	"berth/provisioner"
)

// What a person waits for runs at once beside thousands of looks and repairs that hang for as long as a call may, whether the backend
// takes as many calls as there are jobs or only a few.
func TestPersonBesideHungBackground(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, c := range map[string]struct{ many, concurrency, share int }{
		"any number of calls": {5000, 0, defaults.MaxWorkers / defaults.BackgroundShare},
		"eight calls at once": {500, 8, 8 / defaults.BackgroundShare},
		"two calls at once":   {500, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			old := map[uuid.UUID]bool{}
			hung, most, beside := 0, 0, 0
			full := make(chan struct{})
			b := &scripted{info: provisioner.Info{Concurrency: c.concurrency}, reconcile: func(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
				mu.Lock()
				defer mu.Unlock()
				if !old[r.ID] {
					beside = max(beside, hung)
					return ready, nil
				}
				hung++
				if most = max(most, hung); hung == c.share && full != nil {
					close(full)
					full = nil
				}
				mu.Unlock()
				<-ctx.Done()
				mu.Lock()
				hung--
				return unknown, ctx.Err()
			}}
			backends := map[string]provisioner.Provisioner{"a": b}
			f := newFleet(t, dbtest.New(t), backends)
			f.running(c.many)
			rows, err := f.Pool.Query(ctx, `SELECT id FROM berth.provisioner_resources`)
			require.NoError(t, err)
			ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
			require.NoError(t, err)
			for _, id := range ids {
				old[id] = true
			}
			// Looks, repairs, and what a person waited for once.
			f.exec(`UPDATE berth.provisioner_resources SET retry_at = now() - random() * interval '1 minute', phase = CASE WHEN random() < 0.5 THEN 'ready' ELSE 'pending' END`)
			f.exec(`UPDATE berth.provisioner_resources SET observed_generation = 0, deadline_at = now() - interval '1 hour' WHERE random() < 0.2`)
			reached := full
			f.start(backends)
			<-reached
			f.none(`SELECT greatest($1 - count(*), 0) FROM berth.river_job WHERE queue = 'background-a'`, c.many)
			made := f.create(10)
			f.none(`SELECT count(*) FROM berth.deployments WHERE id = ANY($1) AND state <> 'running'`, made)
			f.tx(func(tx pgx.Tx) error { return f.admin.Stop(ctx, tx, made[:5]...) })
			f.tx(func(tx pgx.Tx) error { return f.admin.Delete(ctx, tx, made[5:]...) })
			f.none(`SELECT count(*) FROM berth.deployments WHERE id = ANY($1) AND state <> 'stopped'`, made)
			require.Greater(t, f.count(`SELECT count(*) FROM berth.provisioner_resources WHERE claimed_generation < generation`), c.many/2, "those who were there first wait yet")
			mu.Lock()
			defer mu.Unlock()
			require.Equal(t, c.share, most, "and have no more than their share")
			require.Positive(t, beside)
		})
	}
}
