package kubernetes

import (
	"maps"
	"net/http"
	"os"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

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

// Credentials that are half written do not take the place of good ones, and that is said.
func TestCredentialsHalfWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, written(t, unmounted(t)))
	path := kubetest.WriteKubeconfig(t, w.Config)
	w.more["kubeconfig_path"] = path
	var refuses atomic.Bool
	w.via = func(next http.RoundTripper) http.RoundTripper {
		return picky{next, func(*http.Request) bool { return !refuses.Load() }}
	}
	k := w.open(t, "k8s-a")
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	config, err := clientcmd.Load(whole)
	require.NoError(t, err)
	for name := range config.AuthInfos {
		config.AuthInfos[name] = clientcmdapi.NewAuthInfo()
	}
	anonymous, err := clientcmd.Write(*config)
	require.NoError(t, err)
	for _, c := range []struct{ file, says string }{
		{string(anonymous), "has none any more: the earlier ones are used"},
		{"clusters: [{token: s3cret", "is not a kubeconfig file"},
	} {
		require.NoError(t, os.WriteFile(path, []byte(c.file), 0o600))
		refuses.Store(true)
		_, err = k.Check(t.Context())
		require.ErrorIs(t, err, provisioner.ErrUnavailable)
		require.ErrorContains(t, err, c.says)
		require.NotContains(t, err.Error(), "s3cret")
		refuses.Store(false)
		_, err = k.Check(t.Context())
		require.NoError(t, err)
	}
	require.NoError(t, os.WriteFile(path, append(whole, '\n'), 0o600))
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
