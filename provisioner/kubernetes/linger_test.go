package kubernetes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth/internal/defaults"
	"berth/provisioner"
	"berth/provisioner/kubernetes/kubetest"
)

// Who waits for a resource hears of it, and nobody is woken for what that one took note of; for the rest somebody is.
func TestWaiterHearsInstead(t *testing.T) {
	t.Parallel()
	c, told := newCache(), 0
	c.begin([]schema.GroupVersionKind{kindConfigMap}, nil, time.Hour, func(uuid.UUID) { told++ })
	require.Nil(t, c.wait(uuid.New()), "nothing is held yet")
	c.replace(kindConfigMap.GroupKind(), nil)
	for _, k := range c.kinds {
		k.heard = time.Now()
	}
	id := uuid.New()
	news := func(ready bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.put(&thing{id: id, key: "Deployment.apps/one", uid: "1", ready: ready})
	}

	w := c.wait(id)
	news(true)
	<-w.heard
	require.Zero(t, told)
	require.True(t, c.note(w, false))
	c.leave(w)
	require.Zero(t, told, "it took note")

	w = c.wait(id)
	news(false)
	<-w.heard
	c.leave(w)
	require.Equal(t, 1, told, "it left before")
	news(true)
	require.Equal(t, 2, told, "nobody waits")

	older := c.wait(id)
	newer := c.wait(id)
	c.leave(older)
	news(false)
	require.True(t, c.note(newer, false), "another call of the resource hears of it still")
	c.leave(newer)
	require.Equal(t, 2, told)
	c.leave(nil)
}

// A pod that waits for its disk is no fault for a while, and one from then on.
func TestFaultThatPasses(t *testing.T) {
	t.Parallel()
	pod := func(message string, since time.Time) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "one"}, "status": map[string]any{
			"conditions": []any{map[string]any{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message, "lastTransitionTime": since.UTC().Format(time.RFC3339)}},
		}}}
	}
	waits := "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"
	now := time.Now()
	for name, c := range map[string]struct {
		message string
		since   time.Time
		faulted bool
	}{
		"a new one":      {waits, now, false},
		"an old one":     {waits, now.Add(-defaults.KubernetesBinding - time.Second), true},
		"of other cause": {"0/3 nodes are available: 3 Insufficient cpu.", now, true},
	} {
		cause := podCause(pod(c.message, c.since))
		require.True(t, cause.fault, name)
		require.Equal(t, "Unschedulable", cause.reason, name)
		is := &thing{role: rolePod, fault: cause.reason, passes: cause.passes}
		require.Equal(t, c.faulted, is.isFaulted(), name)
	}

	// Somebody is told when it has not passed.
	cache, told := newCache(), 0
	cache.changed = func(uuid.UUID) { told++ }
	one := &thing{id: uuid.New(), key: "Pod/one", uid: "1", role: rolePod, fault: "Unschedulable", passes: now.Add(time.Hour)}
	cache.put(one)
	cache.lookAgain()
	require.Zero(t, told)
	one.passes, cache.later[one.id] = now, now
	cache.lookAgain()
	cache.lookAgain()
	require.Equal(t, 1, told)
}

// The cluster alone writes a disk until it has bound it. What is waited for is said without asking, and why it is not made once that is said.
func TestDiskIsOursOnceItIsBound(t *testing.T) {
	t.Parallel()
	texts := map[string]string{"deployment": suiteTemplates["deployment"], "pvc": strings.Replace(suiteTemplates["pvc"], "kind: PersistentVolumeClaim\n",
		"kind: PersistentVolumeClaim\nmetadata: {annotations: {"+kubetest.FailAnnotation+": \"the shelf is empty\"}}\n", 1)}
	w := newWorld(t, written(t, texts))
	k := w.open(t, "k8s-a")
	l := listen(t, k)
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	name := "runtime-" + r.ProvisionID()

	var o provisioner.Observation
	for o.Reason != "ProvisioningFailed" {
		was := l.times(r.ID)
		var err error
		o, err = k.Reconcile(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, provisioner.PhasePending, o.Phase)
		if o.Reason != "ProvisioningFailed" {
			l.news(r.ID, was)
		}
	}
	require.Contains(t, o.Message, "PersistentVolumeClaim "+name+": the shelf is empty")
	disks := w.Client.CoreV1().PersistentVolumeClaims(w.Name)
	disk, err := disks.Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Len(t, disk.OwnerReferences, 1)
	for _, m := range disk.ManagedFields {
		if m.Manager == Manager {
			require.Equal(t, metav1.ManagedFieldsOperationApply, m.Operation, "it was written once")
		}
	}

	_, err = disks.Patch(t.Context(), name, "application/merge-patch+json", []byte(`{"metadata":{"annotations":{"`+kubetest.FailAnnotation+`":null}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	l.driven(k.Reconcile, r, provisioner.PhaseReady)
	disk, err = disks.Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Empty(t, disk.OwnerReferences)
	uid := disk.UID

	// It stays when the rest goes.
	l.driven(k.Hibernate, r, provisioner.PhaseHibernated)
	l.driven(k.Reconcile, r, provisioner.PhaseReady)
	disk, err = disks.Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, uid, disk.UID)
	drive(t, k.Deprovision, r, provisioner.PhaseAbsent)
}

// What is made and waits for its pods is as it is to be: to be asked again costs no request.
func TestPendingIsNotLookedAt(t *testing.T) {
	t.Parallel()
	texts := unmounted(t)
	texts["deployment"] = strings.Replace(texts["deployment"], "    metadata: {labels:", "    metadata: {annotations: {"+kubetest.FailAnnotation+": NotReady}, labels:", 1)
	w := newWorld(t, written(t, texts))
	wire := w.wired()
	k := w.open(t, "k8s-a")
	l := listen(t, k)
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	name := "runtime-" + r.ProvisionID()
	_, err := k.Reconcile(t.Context(), r)
	require.NoError(t, err)
	until(t, "the disk is bound, and all that was made is seen", func() (bool, string) {
		o, err := k.Reconcile(t.Context(), r)
		require.NoError(t, err)
		g, ok := k.glance(*r, readNotes(r), provisioner.RuntimeArgs{Slots: 1})
		things, _ := k.cache.of(r.ID)
		disk := things[volumePrefix+name]
		return ok && !g.ready && disk != nil && disk.bound && disk.anchor == "", fmt.Sprintf("%+v", o)
	})
	wire.requests()
	for range 3 {
		o, err := k.Reconcile(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, provisioner.Observation{Phase: provisioner.PhasePending, Reason: reasonPods, Message: "Deployment " + name + ": 0 of 1 pods are available"}, o)
	}
	require.Empty(t, wire.requests())

	pods, err := w.Client.CoreV1().Pods(w.Name).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, pods.Items, 1)
	_, err = w.Client.CoreV1().Pods(w.Name).Patch(t.Context(), pods.Items[0].Name, "application/merge-patch+json", []byte(`{"metadata":{"annotations":{"`+kubetest.FailAnnotation+`":null}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	l.driven(k.Reconcile, r, provisioner.PhaseReady)
	require.Empty(t, wire.requests(), "that it is ready is heard, too")
}
