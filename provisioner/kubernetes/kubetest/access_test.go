package kubetest

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/stretchr/testify/require"
)

// quantities is a list of resources given as name, quantity, name, quantity.
func quantities(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func TestAccount(t *testing.T) {
	t.Parallel()
	n, other := New(t), New(t)
	a := n.Account(t, "reader", Rights{Role: readPods})
	ctx, core := t.Context(), a.Client.CoreV1()
	_, err := core.Pods(n.Name).List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	for what, err := range map[string]error{
		"another verb":      core.Pods(n.Name).Delete(ctx, "none", metav1.DeleteOptions{}),
		"another namespace": second(core.Pods(other.Name).List(ctx, metav1.ListOptions{})),
		"another kind":      second(core.Secrets(n.Name).List(ctx, metav1.ListOptions{})),
		"the cluster":       second(core.Nodes().List(ctx, metav1.ListOptions{})),
	} {
		require.True(t, apierrors.IsForbidden(err), "%s: %v", what, err)
		require.ErrorContains(t, err, `User "system:serviceaccount:`+n.Name+`:reader" cannot`)
	}

	require.NoError(t, n.Client.CoreV1().ServiceAccounts(n.Name).Delete(ctx, a.Name, metav1.DeleteOptions{}))
	until(t, "its token is worth nothing any more", func(ctx context.Context) (bool, error) { // the API server remembers it for ten seconds
		_, err := core.Pods(n.Name).List(ctx, metav1.ListOptions{})
		return apierrors.IsUnauthorized(err), nil
	})
}

func second[T any](_ T, err error) error { return err }

func TestAccountOfTheCluster(t *testing.T) {
	t.Parallel()
	n := New(t)
	a := n.Account(t, "watcher", Rights{ClusterRole: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes", "pods"}, Verbs: []string{"get", "list"}},
		{APIGroups: []string{""}, Resources: []string{"pods/log"}, Verbs: []string{"get"}},
	}})
	// By way of a file, as the product gets it.
	config, err := clientcmd.BuildConfigFromFlags("", WriteKubeconfig(t, a.Config))
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, nodes.Items, 3)
	_, err = client.CoreV1().Secrets(n.Name).List(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsForbidden(err), "%v", err)
}

func TestKubeconfigOfTheAdministrator(t *testing.T) {
	t.Parallel()
	n := New(t)
	for _, path := range []string{n.Cluster.Kubeconfig, WriteKubeconfig(t, n.Config)} {
		config, err := clientcmd.BuildConfigFromFlags("", path)
		require.NoError(t, err)
		client, err := kubernetes.NewForConfig(config)
		require.NoError(t, err)
		_, err = client.CoreV1().Secrets("kube-system").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
	}
}

// untilRefused returns what something is refused with. Admission sees quotas and labels of namespaces a moment late, so it is only tried.
func untilRefused(t *testing.T, try func(metav1.CreateOptions) error) (refusal error) {
	t.Helper()
	until(t, "it is refused", func(context.Context) (bool, error) {
		refusal = try(metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsForbidden(refusal) {
			return true, nil
		}
		return false, refusal
	})
	return refusal
}

func TestQuotaRefuses(t *testing.T) {
	t.Parallel()
	n := New(t)
	quotas := n.Client.CoreV1().ResourceQuotas(n.Name)
	quota, err := quotas.Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "small"}, Spec: corev1.ResourceQuotaSpec{Hard: quantities("pods", "0", "persistentvolumeclaims", "0")},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	err = untilRefused(t, func(o metav1.CreateOptions) error {
		return second(n.Client.CoreV1().PersistentVolumeClaims(n.Name).Create(t.Context(), claim("data", ClassStandard, "1Gi"), o))
	})
	require.ErrorContains(t, err, "exceeded quota: small")
	apply(t, n, deployment(n, "web"))
	require.Contains(t, awaitEvent(t, n, "FailedCreate"), "exceeded quota: small")

	quota.Spec.Hard = quantities("pods", "9")
	_, err = quotas.Update(t.Context(), quota, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) { // its controller has written the status meanwhile
		quota, err = quotas.Get(t.Context(), "small", metav1.GetOptions{})
		require.NoError(t, err)
		quota.Spec.Hard = quantities("pods", "9")
		_, err = quotas.Update(t.Context(), quota, metav1.UpdateOptions{})
	}
	require.NoError(t, err)
	awaitAvailable(t, n, "web")
}

func TestPodSecurityRefuses(t *testing.T) {
	t.Parallel()
	n := New(t)
	ns, err := n.Client.CoreV1().Namespaces().Get(t.Context(), n.Name, metav1.GetOptions{})
	require.NoError(t, err)
	ns.Labels["pod-security.kubernetes.io/enforce"] = "restricted"
	_, err = n.Client.CoreV1().Namespaces().Update(t.Context(), ns, metav1.UpdateOptions{})
	require.NoError(t, err)
	err = untilRefused(t, func(o metav1.CreateOptions) error {
		return second(n.Client.CoreV1().Pods(n.Name).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.test/main:1"}}},
		}, o))
	})
	require.ErrorContains(t, err, `violates PodSecurity "restricted`)
}
