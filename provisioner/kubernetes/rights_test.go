package kubernetes

import (
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"berth/provisioner"
	"berth/provisioner/kubernetes/kubetest"
)

// rules are those of the first object of a file.
func rules(t *testing.T, path string) []rbacv1.PolicyRule {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	first, _, _ := strings.Cut(string(raw), "\n---\n")
	var role rbacv1.Role
	require.NoError(t, yaml.UnmarshalStrict([]byte(first), &role))
	return role.Rules
}

// The rights of deploy/ are enough for a whole life, and without those of the cluster only the headroom is unknown.
func TestRights(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		all     []rbacv1.PolicyRule
		unknown bool
	}{
		"namespaced": {nil, true},
		"headroom":   {rules(t, "../../deploy/kubernetes/headroom.yaml"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, templates(t, "testdata/base"))
			a := w.Account(t, "berth", kubetest.Rights{Role: rules(t, "../../deploy/kubernetes/role.yaml"), ClusterRole: tt.all})
			w.more["kubeconfig_path"] = kubetest.WriteKubeconfig(t, a.Config)
			k := w.open(t, "k8s-a")
			r := newResource(testArgs(t, "full.json"))
			drive(t, k.Reconcile, r, provisioner.PhaseReady)
			c, err := k.Check(t.Context())
			require.NoError(t, err)
			problems := strings.Join(c.Problems, "\n")
			require.Equal(t, tt.unknown, strings.Contains(problems, "headroom unknown: not permitted"), problems)
			require.NotContains(t, problems, "our account is not permitted")
			require.Equal(t, tt.unknown, c.Slots == nil)
			require.Equal(t, testArgs(t, "full.json").Slots, *c.Used)
			drive(t, k.Hibernate, r, provisioner.PhaseHibernated)
			drive(t, k.Reconcile, r, provisioner.PhaseReady)
			drive(t, k.Deprovision, r, provisioner.PhaseAbsent)
			require.Empty(t, w.objects("k8s-a", uuid.Nil))
		})
	}
}

// A right that is missing is the provisioner's matter, and Check names it; nothing is taken for absent.
func TestRightsMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, written(t, suiteTemplates))
	var fewer []rbacv1.PolicyRule
	for _, rule := range rules(t, "../../deploy/kubernetes/role.yaml") {
		if rule.Resources[0] != "deployments" {
			fewer = append(fewer, rule)
		}
	}
	a := w.Account(t, "berth", kubetest.Rights{Role: fewer})
	w.more["kubeconfig_path"] = kubetest.WriteKubeconfig(t, a.Config)
	k := w.open(t, "k8s-a")
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	for _, do := range []method{k.Reconcile, k.Hibernate, k.Deprovision} {
		o, err := do(t.Context(), r)
		require.ErrorIs(t, err, provisioner.ErrUnavailable)
		require.Equal(t, provisioner.PhaseUnknown, o.Phase)
	}
	_, err := k.Observe(t.Context(), []provisioner.Resource{*r})
	require.ErrorIs(t, err, provisioner.ErrUnavailable)
	c, err := k.Check(t.Context())
	require.NoError(t, err)
	require.Contains(t, strings.Join(c.Problems, "\n"), "not permitted to: create deployments.apps; delete deployments.apps; get deployments.apps")
}
