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

// stranded is a fleet with a deployment that runs at provisioner "a", which then goes missing: the one worker that is left has only
// "b".
type stranded struct {
	*fleet
	a, b       *provisionertest.Fake
	deployment uuid.UUID
	id         uuid.UUID
}

func newStranded(t *testing.T) *stranded {
	t.Helper()
	s := &stranded{a: provisionertest.NewFake("a"), b: provisionertest.NewFake("b", "database")}
	s.fleet = newFleet(t, dbtest.New(t), map[string]provisioner.Provisioner{"a": s.a, "b": s.b})
	n := s.start(map[string]provisioner.Provisioner{"a": s.a})
	s.deployment = s.create(1)[0]
	s.id = s.runtime(s.deployment)
	s.allRunning()
	n.stop()
	s.start(map[string]provisioner.Provisioner{"b": s.b})
	s.exec(`UPDATE berth.provisioners SET seen_at = now() - interval '1 hour' WHERE name = 'a'`)
	return s
}

// now has the dispatcher look at everything that waits.
func (s *stranded) now() {
	s.t.Helper()
	s.exec(`UPDATE berth.provisioner_resources SET retry_at = now() WHERE claimed_generation < generation`)
}

func (s *stranded) back() { s.start(map[string]provisioner.Provisioner{"a": s.a}) }

// A stop counts as done, and is done when the provisioner is back.
func TestStopAtAMissingProvisioner(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newStranded(t)
	s.tx(func(tx pgx.Tx) error { return s.admin.Stop(ctx, tx, s.deployment) })
	require.Equal(t, "stopped", s.state(s.deployment))
	s.now()
	s.none(`SELECT count(*) FROM berth.provisioner_resources WHERE reason <> 'ProvisionerMissing'`)
	got := s.stand(s.id)
	require.Equal(t, "hibernated", got.Desired, "the wish is kept")
	require.Equal(t, `no live worker has provisioner "a": start one that has it configured`, got.Message)
	require.Equal(t, "stopped", s.state(s.deployment))
	require.Zero(t, s.a.Count(provisionertest.Hibernate))
	s.back()
	s.now()
	s.exec(`UPDATE berth.provisioner_resources SET retry_at = now()`)
	s.none(`SELECT count(*) FROM berth.provisioner_resources WHERE phase <> 'hibernated'`)
	require.Equal(t, "stopped", s.state(s.deployment))
}

// A delete is settled with a debt, that is paid when the provisioner is back.
func TestDeleteAtAMissingProvisioner(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, held := range map[string]bool{"held by nobody": false, "held by the last worker that had it, long dead": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStranded(t)
			if held {
				s.wake(s.id)
				s.claimFor(uuid.New(), s.id)
				s.exec(`UPDATE berth.provisioner_resources SET leased_until = now()`)
			}
			s.tx(func(tx pgx.Tx) error { return s.admin.Delete(ctx, tx, s.deployment) })
			require.Equal(t, "deleting", s.state(s.deployment))
			s.now()
			s.none(`SELECT count(*) FROM berth.deployments`)
			require.Equal(t, []string{lifecycle.DeleteAsked, lifecycle.StateChanged + " deleting", lifecycle.DebtLeft, lifecycle.DeploymentDeleted}, s.events(s.deployment)[3:])
			require.Equal(t, 1, s.count(`SELECT count(*) FROM berth.provisioner_resources WHERE deployment_id IS NULL AND reason = 'ProvisionerMissing'`), "it is not forgotten")
			require.Len(t, s.a.World.Things(), 2)
			s.back()
			s.exec(`UPDATE berth.provisioner_resources SET retry_at = now()`)
			s.none(`SELECT count(*) FROM berth.provisioner_resources`)
			require.Empty(t, s.a.World.Things(), "the debt is paid")
			require.Equal(t, 1, s.count(`SELECT count(*) FROM berth.deleted_resources`))
		})
	}
}

// What is to run waits and says why; nobody else is held up; and it runs when the provisioner is back.
func TestCreateAtAMissingProvisioner(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newStranded(t)
	d := s.create(1)[0]
	s.now()
	s.none(`SELECT count(*) FROM berth.provisioner_resources WHERE deployment_id = $1 AND reason <> 'ProvisionerMissing'`, d)
	require.Equal(t, "pending", s.state(d))
	// A debt and a resource at the other one.
	s.tx(func(tx pgx.Tx) error {
		return s.admin.AddResource(ctx, tx, lifecycle.NewResource{Type: "database", Name: "main", Provisioner: "b"}, d)
	})
	s.none(`SELECT count(*) FROM berth.provisioner_resources WHERE type = 'database' AND phase <> 'ready'`)
	require.Equal(t, "running", s.state(s.deployment), "one that runs is left alone")
	s.back()
	s.exec(`UPDATE berth.provisioner_resources SET retry_at = now() WHERE retry_at IS NOT NULL`)
	s.allRunning()
}

// Not seen for a while is not missing; and a live lease is left alone.
func TestStrandTouchesNothingElse(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	o := newOne(t, options{})
	for name, prepare := range map[string]func(){
		"seen lately": func() { o.exec(`UPDATE berth.provisioners SET seen_at = now() - interval '9 minutes'`) },
		"leased": func() {
			o.exec(`UPDATE berth.provisioners SET seen_at = now() - interval '1 hour'`)
			o.claimFor(uuid.New(), o.id)
		},
	} {
		prepare()
		before := o.stand(o.id)
		require.NoError(t, o.strand(ctx, o.id, "a"))
		require.Equal(t, before, o.stand(o.id), name)
	}
	require.NoError(t, o.strand(ctx, uuid.New(), "a"), "what is not there")
	tx, err := o.Pool.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `SELECT FROM berth.deployments FOR NO KEY UPDATE`)
	require.NoError(t, err)
	require.NoError(t, o.strand(ctx, o.id, "a"), "what someone holds is left for later")
	require.NoError(t, tx.Rollback(ctx))
}
