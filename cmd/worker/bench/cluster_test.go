package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/postgres"
	"berth/provisioner/kubernetes/kubetest"
)

const benched = "../../../examples/kubernetes/runtime"

// onCluster measures on a control plane, at sizes that show that it can be measured.
func onCluster(t *testing.T, o ClusterOptions, names ...string) (said string, err error) {
	t.Helper()
	c, err := OpenCluster(t.Context(), o)
	if err != nil {
		return "", err
	}
	defer func() { require.NoError(t, c.Close()) }()
	server, err := postgres.Start(t.Context(), postgres.Options{Name: "bench-test", Temporary: true, Settings: Settings})
	require.NoError(t, err)
	defer func() { require.NoError(t, server.Close()) }()
	var out bytes.Buffer
	err = Run(t.Context(), server.URL, c, names, Quick, &out)
	return out.String(), err
}

// left are the namespaces that were made and are still there.
func left(t *testing.T, c *kubetest.Cluster) (names []string) {
	t.Helper()
	list, err := c.Client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, n := range list.Items {
		if strings.HasPrefix(n.Name, "berth-bench-") {
			names = append(names, n.Name)
		}
	}
	return names
}

// All measurements on a cluster run to their end, and leave nothing there.
func TestOnCluster(t *testing.T) {
	t.Parallel()
	c := kubetest.Private(t, kubetest.Options{Nodes: 1})
	said, err := onCluster(t, ClusterOptions{Kubeconfig: c.Kubeconfig, Templates: benched}, OnCluster()...)
	require.NoError(t, err)
	for _, line := range []string{
		"cluster-latency of " + benched + ": Kubernetes v1.", "cluster-latency of a Deployment and a Service: ", "cluster-latency  median ",
		"cluster-latency  kubectl", "cluster-rate  applied and watched one after another ", "cluster-watch  10 deployments made in ", "cluster-watch  heap in use ",
		"cluster-watch  10 deployments observed, all healthy, median of 1: ", "with 0 requests to the cluster",
	} {
		require.Contains(t, said, line)
	}
	require.Empty(t, left(t, c))
}

// They leave nothing when they fail, and nothing of theirs in a namespace that was named.
func TestTidiesUp(t *testing.T) {
	t.Parallel()
	c := kubetest.Private(t, kubetest.Options{Nodes: 1})
	refused := t.TempDir() // by the cluster, for the name of a container
	require.NoError(t, os.WriteFile(filepath.Join(refused, "deployment.yaml"), []byte(`apiVersion: apps/v1
kind: Deployment
spec:
  selector: {matchLabels: {runtime: {{ .ProvisionID | quote }}}}
  template:
    metadata: {labels: {runtime: {{ .ProvisionID | quote }}}}
    spec:
      containers: [{name: Runtime_1, image: none}]
`), 0o600))
	_, err := onCluster(t, ClusterOptions{Kubeconfig: c.Kubeconfig, Templates: refused}, "cluster-latency")
	require.ErrorContains(t, err, "measure cluster-latency: apply Deployment ")
	require.ErrorContains(t, err, "containers[0].name")
	require.Eventually(t, func() bool { return len(left(t, c)) == 0 }, time.Minute, 50*time.Millisecond)

	n := c.Namespace(t)
	_, err = n.Client.CoreV1().ConfigMaps(n.Name).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = onCluster(t, ClusterOptions{Kubeconfig: c.Kubeconfig, Templates: benched, Namespace: n.Name}, "cluster-rate")
	require.NoError(t, err)
	_, err = n.Client.CoreV1().ConfigMaps(n.Name).Get(t.Context(), "theirs", metav1.GetOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		maps, err := n.Client.CoreV1().ConfigMaps(n.Name).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by"})
		pods, other := n.Client.CoreV1().Pods(n.Name).List(t.Context(), metav1.ListOptions{})
		disks, another := n.Client.CoreV1().PersistentVolumeClaims(n.Name).List(t.Context(), metav1.ListOptions{})
		return err == nil && other == nil && another == nil && len(maps.Items)+len(pods.Items)+len(disks.Items) == 0
	}, time.Minute, 50*time.Millisecond)

	_, err = onCluster(t, ClusterOptions{Kubeconfig: c.Kubeconfig, Templates: benched, Namespace: "none"}, "cluster-rate")
	require.EqualError(t, err, `--namespace: "none" is not there: make it, or leave the flag out to have one made`)
}
