package trials

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/db/dbtest"
)

// A resource that kills whoever works on it is set aside after the third worker, and tried again much later. What was in flight
// beside it each time is not.
func TestKillerIsSetAside(t *testing.T) {
	t.Parallel()
	f := begin(t, dbtest.New(t), map[string]backend{"a": {Type: "world", Delay: time.Second}})
	f.order.MaxWorkers = 30 // not all for one
	end := f.guard()
	workers := []*process{f.start(), f.start()}
	innocent := f.create("a", 40)
	f.until(func() bool { return f.count(`SELECT count(DISTINCT leased_by) FROM berth.provisioner_resources`) == 2 }, f.picture)
	killer := f.create("a", 1, trick, kills)[0]

	deaths := 0
	aside := func() bool {
		for i, w := range workers {
			if !w.alive() { // whoever looks after workers starts another
				deaths++
				workers[i] = f.launch()
			}
		}
		return f.count(`SELECT count(*) FROM berth.deployments WHERE state = 'errored'`) > 0
	}
	f.until(aside, f.picture)
	require.Equal(t, 3, deaths)
	d, err := f.admin.Get(t.Context(), f.Pool, killer)
	require.NoError(t, err)
	require.Equal(t, "errored", d.State)
	require.Equal(t, "WorkerLost", d.Reason)
	require.Contains(t, d.Message, "3 workers")
	require.Greater(t, time.Until(*d.Resources[0].RetryAt), 5*time.Minute, "it is tried again, and not soon")

	f.none(`SELECT count(*) FROM berth.deployments WHERE id <> $1 AND state <> 'running'`, killer)
	require.Equal(t, 1, f.count(`SELECT count(*) FROM berth.events WHERE kind = 'WorkerLost'`), "nobody else was set aside")
	require.Equal(t, len(innocent), f.count(`SELECT count(*) FROM trial.objects`))
	for _, w := range workers {
		require.True(t, w.alive())
	}
	f.clean()
	end()
}
