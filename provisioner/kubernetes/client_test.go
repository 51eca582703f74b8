package kubernetes

import (
	"maps"
	"os"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"berth/provisioner"
	"berth/provisioner/kubernetes/kubetest"
)

// Credentials that are replaced on disk are read again; until they are right the cluster is unavailable, and nothing is absent.
func TestCredentialsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, written(t, suiteTemplates))
	wrong := rest.AnonymousClientConfig(w.Config)
	wrong.BearerToken = "not-a-token"
	path := kubetest.WriteKubeconfig(t, wrong)
	w.more["kubeconfig_path"] = path
	k := w.open(t, "k8s-a")
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	for _, do := range []method{k.Reconcile, k.Deprovision, k.Hibernate} {
		o, err := do(t.Context(), r)
		require.ErrorIs(t, err, provisioner.ErrUnavailable)
		require.Equal(t, provisioner.PhaseUnknown, o.Phase)
	}
	_, err := k.Check(t.Context())
	require.ErrorIs(t, err, provisioner.ErrUnavailable)
	right, err := os.ReadFile(kubetest.WriteKubeconfig(t, w.Config))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, right, 0o600))
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
}

// A kind that the cluster does not have fails what asks for it, and holds up no delete: there can be no object of it.
func TestKindThatIsNotServed(t *testing.T) {
	t.Parallel()
	texts := maps.Clone(suiteTemplates)
	texts["monitor"] = "apiVersion: monitoring.example.test/v1\nkind: Monitor\nspec: {}\n"
	w := newWorld(t, written(t, texts))
	k := w.open(t, "k8s-a")
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	_, err := k.Reconcile(t.Context(), r)
	require.ErrorIs(t, err, errNotServed)
	require.NotErrorIs(t, err, provisioner.ErrInvalid, "it is mended at the cluster")
	drive(t, k.Hibernate, r, provisioner.PhaseHibernated)
	drive(t, k.Deprovision, r, provisioner.PhaseAbsent)
	require.Empty(t, w.objects("k8s-a", uuid.Nil))
}
