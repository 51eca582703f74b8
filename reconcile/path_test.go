package reconcile

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/db/dbtest"
	"berth/lifecycle"
	"berth/provisioner"
	"berth/provisioner/provisionertest"
)

// A deployment with a runtime at one provisioner and a database at another, through every state and back.
func TestRuntimeAndDatabase(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	a, b := provisionertest.NewFake("a"), provisionertest.NewFake("b", "database")
	a.Looks, b.Looks, b.Private = 1, 2, true
	backends := map[string]provisioner.Provisioner{"a": a, "b": b}
	f := newFleet(t, dbtest.New(t), backends)
	f.start(backends)
	f.start(backends)
	d := f.create(1)[0]
	database := lifecycle.NewResource{Type: "database", Name: "main", Args: []byte(`{"slots": 2}`)}
	do := func(what func(pgx.Tx) error, state string) {
		t.Helper()
		f.tx(what)
		f.none(`SELECT count(*) FROM berth.deployments WHERE state <> $1`, state)
		f.none(`SELECT count(*) FROM berth.provisioner_resources WHERE claimed_generation < generation OR fence IS NOT NULL`)
	}
	parts := func(fake *provisionertest.Fake) (parts []provisionertest.Part) {
		for _, thing := range fake.World.Things() {
			parts = append(parts, thing.Part)
		}
		return parts
	}
	whole, parked := []provisionertest.Part{provisionertest.Disk, provisionertest.Instance}, []provisionertest.Part{provisionertest.Disk}
	both := func(want []provisionertest.Part) {
		t.Helper()
		require.ElementsMatch(t, want, parts(a))
		require.ElementsMatch(t, want, parts(b))
	}
	start := func(tx pgx.Tx) error { return f.admin.Start(ctx, tx, d) }
	stop := func(tx pgx.Tx) error { return f.admin.Stop(ctx, tx, d) }
	add := func(tx pgx.Tx) error { return f.admin.AddResource(ctx, tx, database, d) }
	remove := func(tx pgx.Tx) error { return f.admin.RemoveResource(ctx, tx, "database", "main", d) }

	do(add, "running")
	both(whole)
	first := f.count(`SELECT count(DISTINCT id) FROM berth.provisioner_resources`)
	require.Equal(t, 2, first)
	do(stop, "stopped")
	both(parked)
	do(start, "running")
	both(whole)
	instances := func() (uids []string) {
		for _, fake := range []*provisionertest.Fake{a, b} {
			for _, thing := range fake.World.Things() {
				if thing.Part == provisionertest.Instance {
					uids = append(uids, thing.UID)
				}
			}
		}
		return uids
	}
	before := instances()
	f.tx(func(tx pgx.Tx) error { return f.admin.Restart(ctx, tx, d) })
	f.none(`SELECT count(*) FROM berth.provisioner_resources WHERE desired_phase <> 'ready' OR phase <> 'ready' OR observed_generation < intent_generation`)
	f.allRunning()
	for i, uid := range instances() {
		require.NotEqual(t, before[i], uid, "each was stopped and started again")
	}
	do(func(tx pgx.Tx) error { return f.admin.Update(ctx, tx, lifecycle.Change{Slots: 3}, d) }, "running")
	for _, thing := range a.World.Things() {
		require.Equal(t, 3, thing.Slots)
	}
	do(remove, "running")
	f.none(`SELECT count(*) FROM berth.provisioner_resources WHERE type = 'database'`)
	require.Empty(t, parts(b))
	require.ElementsMatch(t, whole, parts(a), "only what was asked for goes")
	do(add, "running")
	both(whole)
	require.Equal(t, 1, f.count(`SELECT count(*) FROM berth.deleted_resources`), "an id is not used twice")
	do(stop, "stopped")
	do(remove, "stopped")
	f.none(`SELECT count(*) FROM berth.provisioner_resources WHERE type = 'database'`)
	do(add, "stopped")
	require.Empty(t, parts(b), "nothing is made before it is needed")
	do(start, "running")
	both(whole)
	f.deleteAll([]uuid.UUID{d})
	empty(t, a)
	empty(t, b)
}
