package jobs

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/riverqueue/river"
	"github.com/stretchr/testify/require"

	"berth/internal/defaults"
)

func TestWakeParams(t *testing.T) {
	t.Parallel()
	id, deployment := uuid.New(), uuid.New()
	place := Place{ResourceID: id, Provisioner: "static-eu"}
	for name, tc := range map[string]struct {
		reason string
		wake   Wake
		args   river.JobArgs
		want   river.InsertOpts
	}{
		"intent": {
			"a person waits, and the search of the queue's pages finds it by deployment and provisioner",
			Wake{Kind: Provision, ResourceID: id, Provisioner: "static-eu", DeploymentID: deployment},
			ProvisionArgs{place},
			river.InsertOpts{Queue: "provisioner-static-eu", Priority: defaults.PriorityIntent, Tags: []string{"provisioner-static-eu", "deployment-" + deployment.String()}},
		},
		"background": {
			"nobody waits, and it keeps nobody from a slot who does",
			Wake{Kind: Hibernate, ResourceID: id, Provisioner: "static-eu", DeploymentID: deployment, Background: true},
			HibernateArgs{place},
			river.InsertOpts{Queue: "background-static-eu", Priority: defaults.PriorityBackground, Tags: []string{"provisioner-static-eu", "deployment-" + deployment.String()}},
		},
		"debt of a missing provisioner": {
			"it belongs to no deployment, and every process works the shared queue",
			Wake{Kind: Deprovision, ResourceID: id, Provisioner: "static-eu", Shared: true},
			DeprovisionArgs{place},
			river.InsertOpts{Queue: Shared, Priority: defaults.PriorityIntent, Tags: []string{"provisioner-static-eu"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tc.wake.params()
			tc.want.MaxAttempts = defaults.JobMaxAttempts
			require.Empty(t, cmp.Diff(tc.want, *got.InsertOpts), tc.reason)
			require.Empty(t, cmp.Diff(tc.args, got.Args), tc.reason)
			require.Equal(t, string(tc.wake.Kind), got.Args.Kind())
		})
	}
}
