package trials

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/db/dbtest"
	"berth/lifecycle"
)

// Workers are replaced one after another while everything is under way, as a rollout does: nothing is lost, counted or waited for.
func TestStoppedUnderLoad(t *testing.T) {
	t.Parallel()
	f := begin(t, dbtest.New(t), both(t, 100, 200*time.Millisecond))
	f.order.MaxWorkers = 20
	end := f.guard()
	workers := []*process{f.start(), f.start(), f.start()}
	ids := f.createAll(100)
	calm := f.unrest(ids)
	for range times(2) {
		for i, w := range workers {
			held := func() bool {
				return f.count(`SELECT count(*) FROM berth.provisioner_resources WHERE leased_by = $1`, w.id) > 0
			}
			f.until(held, f.picture)
			w.signal(syscall.SIGTERM)
			w.hears("stopping")
			status := w.wait()
			require.True(t, status.Exited() && status.ExitStatus() == 0, "%s ended with %v", w.name, status)
			require.False(t, held(), "what it held is anybody's")
			require.Zero(t, f.count(`SELECT count(*) FROM berth.workers WHERE id = $1 AND alive_until > clock_timestamp()`, w.id))
			workers[i] = f.start()
		}
	}
	calm()
	f.change((*lifecycle.Client).Start, ids...)
	f.running()
	require.Zero(t, f.count(`SELECT count(*) FROM berth.provisioner_resources WHERE lost > 0 OR failures > 0`))
	f.check()
	f.clean()
	end()
}

// What does not end by itself is cut off and given back. Who is in a hurry sends a second signal.
func TestStoppedInACall(t *testing.T) {
	t.Parallel()
	f := begin(t, dbtest.New(t), map[string]backend{"a": {Type: "world"}})
	w := f.start()
	f.create("a", 1, trick, hangs)
	const held = `SELECT count(*) FROM berth.provisioner_resources WHERE leased_by = $1`
	f.until(func() bool { return f.count(held, w.id) == 1 }, f.picture)
	w.signal(syscall.SIGTERM)
	w.hears("stopping")
	w.signal(syscall.SIGTERM)
	status := w.wait()
	require.True(t, status.Signaled() && status.Signal() == syscall.SIGTERM, "%v", status)
	require.Equal(t, 1, f.count(held, w.id), "it did not take the time to give anything back")

	w = f.start()
	f.until(func() bool { return f.count(held, w.id) == 1 }, f.picture)
	w.signal(syscall.SIGTERM)
	status = w.wait()
	require.True(t, status.Exited() && status.ExitStatus() == 0, "%v", status)
	require.Zero(t, f.count(held, w.id))
	require.Zero(t, f.count(`SELECT sum(failures)::int FROM berth.provisioner_resources`))
	f.start()
	f.change((*lifecycle.Client).Delete, f.deployments()...)
	f.none(`SELECT count(*) FROM berth.deployments`)
}
