package reconcile

import (
	"context"
	"testing"

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
