package reconcile

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/db/dbtest"
	"berth/internal/defaults"
	"berth/provisioner"
)

// A place that someone holds for a moment is driven by the run that asked; a run that finds nothing to do does not ask again; and
// few of a process ask again at once.
func TestHeldIsAskedAgain(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	o := newOne(t, options{})
	o.backend.reconcile = says(ready, nil)
	tx, err := o.Pool.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `SELECT FROM berth.deployments FOR NO KEY UPDATE`)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- o.Drive(ctx, o.id, "a") }()
	eventually(t, func() bool { return len(o.waiting) == 1 }, "it asks again")
	require.NoError(t, tx.Rollback(ctx))
	require.NoError(t, <-done)
	require.Equal(t, "running", o.state(o.deployment))

	// With so many asking already, one more leaves it to the dispatcher at once.
	tx, err = o.Pool.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `SELECT FROM berth.deployments FOR NO KEY UPDATE`)
	require.NoError(t, err)
	o.wake(o.id)
	for range defaults.HeldAtOnce {
		o.waiting <- struct{}{}
	}
	require.NoError(t, o.Drive(ctx, o.id, "a"))
	require.True(t, o.stand(o.id).Waiting)
	require.NoError(t, tx.Rollback(ctx))
	for range defaults.HeldAtOnce {
		<-o.waiting
	}
}

// A place that someone holds does not keep a backend with room for one call from the others.
func TestHeldKeepsNobodyFromTheBackend(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := &scripted{info: provisioner.Info{Concurrency: 1}}
	backends := map[string]provisioner.Provisioner{"a": b}
	f := newFleet(t, dbtest.New(t), backends)
	e := f.engine(backends, options{})
	ds := f.create(2)
	tx, err := f.Pool.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `SELECT FROM berth.deployments WHERE id = $1 FOR NO KEY UPDATE`, ds[0])
	require.NoError(t, err)
	held := make(chan error, 1)
	go func() { held <- e.Drive(ctx, f.runtime(ds[0]), "a") }()
	eventually(t, func() bool { return len(e.waiting) == 1 }, "it asks again")
	require.NoError(t, tx.Rollback(ctx))
	f.drive(e, f.runtime(ds[1]))
	require.Equal(t, "running", f.state(ds[1]))
	require.NoError(t, <-held)
	require.Empty(t, e.backends["a"].slots, "room is given back")
}

// At most as many calls at once as the backend bears.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	live, most := make(chan struct{}, 100), make(chan int, 100)
	b := &scripted{info: provisioner.Info{Concurrency: 2}, reconcile: func(context.Context, *provisioner.Resource) (provisioner.Observation, error) {
		live <- struct{}{}
		most <- len(live)
		<-live
		return ready, nil
	}}
	backends := map[string]provisioner.Provisioner{"a": b}
	f := newFleet(t, dbtest.New(t), backends)
	f.start(backends)
	ids := f.create(50)
	f.allRunning()
	close(most)
	for n := range most {
		require.LessOrEqual(t, n, 2)
	}
	f.tx(func(tx pgx.Tx) error { return f.admin.Delete(ctx, tx, ids...) })
	f.clean()
}
