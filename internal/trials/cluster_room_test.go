package trials

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth/provisioner/kubernetes/kubetest"
)

// A cluster has no room, and a node is on its way: both are said at once. Past its time the deployment is errored, which says the same, and
// nothing of it is deleted; it runs by itself once the node is there.
func TestKubernetesNodeComesLate(t *testing.T) {
	t.Parallel()
	plane := kubetest.Private(t, kubetest.Options{})
	c := newClusterWithin(t, plane.Namespace(t), false, 10*time.Second)
	end := c.guard()
	c.start()
	c.cordon(true)
	c.make(1)
	says := func(state, words string) {
		t.Helper()
		c.until(func() bool {
			return c.count(`SELECT count(*) FROM berth.deployments d JOIN berth.provisioner_resources p ON p.deployment_id = d.id
				WHERE d.state = $1 AND p.reason = 'Unschedulable' AND strpos(p.message, $2) > 0`, state, words) == 1
		}, c.picture)
	}
	says("pending", "nodes are available")
	pods := c.pods()
	require.Len(t, pods, 1)
	pod := slices.Collect(maps.Values(pods))[0]
	events := c.space.Client.CoreV1().Events(c.space.Name)
	_, err := events.Create(t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "scale-up"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: c.space.Name, UID: types.UID(pod)},
		Type:           corev1.EventTypeNormal, Reason: "TriggeredScaleUp", Message: "pod triggered scale-up: [{pool 1->2 (max: 10)}]", LastTimestamp: metav1.Now(),
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	says("pending", "scale-up triggered: [{pool 1->2 (max: 10)}]")
	says("errored", "scale-up triggered: [{pool 1->2 (max: 10)}]")
	tried := c.count(`SELECT claimed_generation FROM berth.provisioner_resources`)
	c.until(func() bool { return c.count(`SELECT claimed_generation FROM berth.provisioner_resources`) > tried }, c.picture)
	says("errored", "scale-up triggered")
	c.cordon(false)
	c.running()
	require.Equal(t, pods, c.pods())
	c.check()
	c.clean()
	end()
}

// cordon has no node take pods any more, or has them take some again.
func (c *cluster) cordon(closed bool) {
	c.t.Helper()
	nodes, err := c.space.Client.CoreV1().Nodes().List(c.t.Context(), metav1.ListOptions{})
	require.NoError(c.t, err)
	require.NotEmpty(c.t, nodes.Items)
	body := []byte(`{"spec":{"unschedulable":null}}`)
	if closed {
		body = []byte(`{"spec":{"unschedulable":true}}`)
	}
	for _, n := range nodes.Items {
		_, err := c.space.Client.CoreV1().Nodes().Patch(c.t.Context(), n.Name, types.MergePatchType, body, metav1.PatchOptions{})
		require.NoError(c.t, err)
	}
}
