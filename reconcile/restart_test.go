package reconcile

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"berth/db/dbtest"
	"berth/provisioner"
	"berth/provisioner/provisionertest"
)

// Postgres is restarted while hundreds are under way, at once and in order. What was under way goes on where it was: nothing is
// taken over, nothing that ended is done twice, and nothing counts as a failure.
func TestPostgresRestarts(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, immediate := range map[string]bool{"immediate": true, "fast": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := provisionertest.NewFake("a")
			backends := map[string]provisioner.Provisioner{"a": struct{ provisioner.Provisioner }{fake}}
			f := newFleet(t, dbtest.Private(t, dbtest.PrivateOptions{Durable: true}), backends)
			fake.Always(provisionertest.Reconcile, uuid.Nil, provisionertest.Slow(100*time.Millisecond))
			log := &counting{}
			var engines []*Engine
			for range 2 {
				n := f.startWith(options{log: log.logger()}, backends)
				trust(n.Engine) // if it could, it would
				engines = append(engines, n.Engine)
			}
			ids := f.create(400)
			for round := range 2 {
				require.NoError(t, fake.Await(ctx, provisionertest.Reconcile, uuid.Nil, 60+100*round))
				require.NoError(t, f.Server.Restart(ctx, immediate))
				f.Pool.Reset()
			}
			eventually(t, func() bool {
				var left int
				err := f.Pool.QueryRow(ctx, `SELECT count(*) FROM berth.deployments WHERE state <> 'running'`).Scan(&left)
				return err == nil && left == 0
			}, "all run")
			require.Zero(t, log.count("taken over"), "those who are alive are not taken over from")
			require.Empty(t, fake.World.Overlaps(), "no two calls at once")
			again := 0
			for _, id := range ids {
				again += fake.CountFor(provisionertest.Reconcile, f.runtime(id)) - 1
			}
			cut := 0 // where Postgres took longer to come back than a worker may act without it
			for _, e := range engines {
				cut += int(e.leasesLost.Load()) //nolint:gosec // a few
			}
			require.LessOrEqual(t, again, cut, "what was done was not done again")
			require.Zero(t, f.count(`SELECT count(*) FROM berth.provisioner_resources WHERE failures > 0 OR lost > 0 OR fence IS NOT NULL`))
			require.Equal(t, 400, f.count(`SELECT count(*) FROM berth.events WHERE kind = 'RuntimePublished'`))
			f.deleteAll(ids)
			empty(t, fake)
		})
	}
}
