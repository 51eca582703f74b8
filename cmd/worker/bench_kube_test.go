//go:build testkube

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/provisioner/kubernetes/kubetest"
)

// onCluster measures on a control plane.
func onCluster(t *testing.T, c *kubetest.Cluster, templates string, more ...string) result {
	t.Helper()
	return worker(t.Context(), nil, append([]string{"bench", "--quick", "--no-fsync", "--kubeconfig", c.Kubeconfig, "--templates", templates}, more...)...)
}

// left are the namespaces that the bench made and that are still there.
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

const benched = "../../examples/kubernetes/runtime"

// All measurements on a cluster run to their end, and leave nothing there.
func TestBenchOnCluster(t *testing.T) {
	t.Parallel()
	c := kubetest.Private(t, kubetest.Options{Nodes: 1})
	r := onCluster(t, c, benched, "--only", "cluster-latency,cluster-rate,cluster-watch")
	require.Zero(t, r.status, r.stderr)
	for _, line := range []string{
		"cluster-latency of " + benched + ": Kubernetes v1.", "cluster-latency of a Deployment and a Service: ", "cluster-latency  median ",
		"cluster-latency  kubectl", "cluster-rate  applied and watched one after another ", "cluster-watch  10 deployments made in ", "cluster-watch  heap in use ",
		"cluster-watch  10 deployments observed, all healthy, median of 1: ", "with 0 requests to the cluster",
	} {
		require.Contains(t, r.stdout, line)
	}
	require.Empty(t, left(t, c))
}

// They leave nothing when they fail, and nothing of theirs in a namespace that was named.
func TestBenchTidiesUp(t *testing.T) {
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
	r := onCluster(t, c, refused, "--only", "cluster-latency")
	require.Equal(t, exitFailed, r.status, r.stderr)
	require.Contains(t, r.stderr, "measure cluster-latency: apply Deployment ")
	require.Contains(t, r.stderr, "containers[0].name")
	require.Eventually(t, func() bool { return len(left(t, c)) == 0 }, time.Minute, 50*time.Millisecond)

	n := c.Namespace(t)
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}}
	_, err := n.Client.CoreV1().ConfigMaps(n.Name).Create(t.Context(), theirs, metav1.CreateOptions{})
	require.NoError(t, err)
	r = onCluster(t, c, benched, "--only", "cluster-rate", "--namespace", n.Name)
	require.Zero(t, r.status, r.stderr)
	_, err = n.Client.CoreV1().ConfigMaps(n.Name).Get(t.Context(), "theirs", metav1.GetOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		maps, err := n.Client.CoreV1().ConfigMaps(n.Name).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by"})
		pods, other := n.Client.CoreV1().Pods(n.Name).List(t.Context(), metav1.ListOptions{})
		disks, another := n.Client.CoreV1().PersistentVolumeClaims(n.Name).List(t.Context(), metav1.ListOptions{})
		return err == nil && other == nil && another == nil && len(maps.Items)+len(pods.Items)+len(disks.Items) == 0
	}, time.Minute, 50*time.Millisecond)

	r = onCluster(t, c, benched, "--namespace", "none")
	require.Equal(t, exitFailed, r.status)
	require.Equal(t, "worker: --namespace: \"none\" is not there: make it, or leave the flag out to have one made\n", r.stderr)
}
