package reconcile

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/db/dbtest"
	"berth/provisioner"
)

func TestLifeOfDeployments(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	backends := map[string]provisioner.Provisioner{"a": &scripted{}}
	f := newFleet(t, dbtest.New(t), backends)
	f.start(backends)
	ids := f.create(20)
	f.allRunning()
	f.tx(func(tx pgx.Tx) error { return f.admin.Stop(ctx, tx, ids...) })
	f.none(`SELECT count(*) FROM berth.deployments WHERE state <> 'stopped'`)
	f.tx(func(tx pgx.Tx) error { return f.admin.Start(ctx, tx, ids...) })
	f.allRunning()
	f.tx(func(tx pgx.Tx) error { return f.admin.Restart(ctx, tx, ids...) })
	f.none(`SELECT count(*) FROM berth.provisioner_resources WHERE generation < 5 OR desired_phase <> 'ready'`)
	f.allRunning()
	f.tx(func(tx pgx.Tx) error { return f.admin.Delete(ctx, tx, ids...) })
	f.clean()
	require.Equal(t, 20, f.count(`SELECT count(*) FROM berth.deleted_resources`))
}

// A wake-up that finds nothing to do is done: it is not tried again, and leads to no other.
func TestNothingToDo(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	o := newOne(t, options{})
	calls := 0
	var fence, stored uuid.UUID
	o.backend.reconcile = func(_ context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
		calls++
		fence = r.Fence
		o.row(`SELECT fence FROM berth.provisioner_resources`, nil, &stored)
		return ready, nil
	}
	jobs := func() int { return o.count(`SELECT count(*) FROM berth.river_job`) }
	before := jobs()
	require.NoError(t, o.Drive(ctx, uuid.New(), "a"), "what is not there")
	require.NoError(t, o.Drive(ctx, o.id, "b"), "where it is not")
	o.drive(o.Engine, o.id)
	require.Equal(t, stored, fence, "a backend that can compare is told the token of the run")
	for range 3 {
		o.drive(o.Engine, o.id)
	}
	require.Equal(t, 1, calls)
	require.Equal(t, before, jobs())
}
