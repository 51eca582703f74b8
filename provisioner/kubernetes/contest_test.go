package kubernetes

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/defaults"
	"berth/provisioner"
)

// A field that another writer changes again and again is left to that one after a few rounds, and all else stays ours.
func TestContested(t *testing.T) {
	t.Parallel()
	all := maps.Clone(suiteTemplates)
	all["deployment"] = strings.ReplaceAll(all["deployment"], "strategy: {type: Recreate}", "replicas: 1\n  strategy: {type: Recreate}")
	w := newWorld(t, written(t, all))
	k := w.open(t, "k8s-a")
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
	name := "runtime-" + r.ProvisionID()
	deployments := w.Client.AppsV1().Deployments(w.Name)
	scale := func() {
		_, err := deployments.Patch(t.Context(), name, "application/merge-patch+json", []byte(`{"spec":{"replicas":2}}`), metav1.PatchOptions{FieldManager: "scaler"}, "scale")
		require.NoError(t, err)
	}
	var o provisioner.Observation
	rounds := 0
	for ; o.Reason != reasonContested; rounds++ {
		require.LessOrEqual(t, rounds, defaults.KubernetesRounds)
		scale()
		require.Equal(t, []string{"Deployment " + name + ": spec.replicas"}, observed1(t, k, r).Drift)
		o = drive(t, k.Reconcile, r, provisioner.PhaseReady)
	}
	require.Equal(t, defaults.KubernetesRounds, rounds)
	require.Equal(t, "spec.replicas of Deployment.apps "+name+" is also written by scaler, and left to it", o.Message)
	d, err := deployments.Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 2, *d.Spec.Replicas, "as the other one wants it")
	seen := observed1(t, w.open(t, "k8s-a"), r)
	require.Equal(t, provisioner.Observation{Phase: provisioner.PhaseReady, Reason: reasonContested, Message: o.Message}, seen)
	plan, err := k.Plan(t.Context(), *r)
	require.NoError(t, err)
	require.Empty(t, plan)

	_, err = deployments.Patch(t.Context(), name, "application/strategic-merge-patch+json",
		[]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"runtime","image":"another"}]}}}}`), metav1.PatchOptions{FieldManager: "hand"})
	require.NoError(t, err)
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
	d, err = deployments.Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	require.NotEqual(t, "another", d.Spec.Template.Spec.Containers[0].Image, "the rest is ours")
	require.EqualValues(t, 2, *d.Spec.Replicas)

	drive(t, k.Hibernate, r, provisioner.PhaseHibernated)
	require.Empty(t, drive(t, k.Reconcile, r, provisioner.PhaseReady).Reason)
	d, err = deployments.Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 1, *d.Spec.Replicas, "made anew as it is asked for")
}

// A field that the template does not set is another's from the start, and no drift.
func TestNotOurs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, written(t, suiteTemplates))
	k := w.open(t, "k8s-a")
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
	name := "runtime-" + r.ProvisionID()
	deployments := w.Client.AppsV1().Deployments(w.Name)
	for _, patch := range []string{
		`{"spec":{"replicas":2}}`,
		`{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"2026-01-01T00:00:00Z"}}}}}`,
		`{"spec":{"template":{"spec":{"containers":[{"name":"sidecar","image":"sidecar"}]}}}}`,
	} {
		_, err := deployments.Patch(t.Context(), name, "application/strategic-merge-patch+json", []byte(patch), metav1.PatchOptions{FieldManager: "another"})
		require.NoError(t, err)
		require.Empty(t, observed1(t, k, r).Drift, patch)
		drive(t, k.Reconcile, r, provisioner.PhaseReady)
	}
	r.Args = provisioner.Encode(provisioner.RuntimeArgs{Slots: 2})
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
	d, err := deployments.Get(context.Background(), name, metav1.GetOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 2, *d.Spec.Replicas)
	require.Len(t, d.Spec.Template.Spec.Containers, 2)
	require.Contains(t, d.Spec.Template.Annotations, "kubectl.kubernetes.io/restartedAt")
}

// A template that says no more how many pods there are leaves those that there are, and whoever scales them from then on.
func TestReplicasAreLeftToOthers(t *testing.T) {
	t.Parallel()
	texts := maps.Clone(unmounted(t))
	texts["deployment"] = strings.ReplaceAll(texts["deployment"], "strategy: {type: Recreate}", "replicas: 3") // and it rolled before
	w := newWorld(t, written(t, texts))
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	drive(t, w.open(t, "k8s-a").Reconcile, r, provisioner.PhaseReady)
	pods := w.uids("k8s-a", r.ID, "Pod")
	require.Len(t, pods, 3)
	w.paths = written(t, unmounted(t))
	k := w.open(t, "k8s-a")
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
	require.Equal(t, pods, w.uids("k8s-a", r.ID, "Pod"))
	_, err := w.Client.AppsV1().Deployments(w.Name).Patch(t.Context(), "runtime-"+r.ProvisionID(), "application/merge-patch+json", []byte(`{"spec":{"replicas":2}}`), metav1.PatchOptions{FieldManager: "another"})
	require.NoError(t, err)
	require.Empty(t, observed1(t, k, r).Drift)
	require.Empty(t, drive(t, k.Reconcile, r, provisioner.PhaseReady).Reason)
	until(t, "one pod is gone", func() (bool, string) { return len(w.uids("k8s-a", r.ID, "Pod")) == 2, "" })
	r.Args = provisioner.Encode(provisioner.RuntimeArgs{Slots: 2})
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
	require.Len(t, w.uids("k8s-a", r.ID, "Pod"), 2)
}

// An entry of a list that another manager wrote too can not be renumbered: who it is is told, and nothing is tried without end.
func TestPortOfAnotherManager(t *testing.T) {
	t.Parallel()
	w := newWorld(t, written(t, suiteTemplates))
	k := w.open(t, "k8s-a")
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
	name := "runtime-" + r.ProvisionID()
	services := w.Client.CoreV1().Services(w.Name)
	_, err := services.Patch(t.Context(), name, "application/apply-patch+yaml",
		[]byte(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"`+name+`"},"spec":{"ports":[{"name":"http","port":80}]}}`), metav1.PatchOptions{FieldManager: "earlier"})
	require.NoError(t, err)
	require.Empty(t, observed1(t, k, r).Drift)
	w.paths = with(t, "service", "port: 80}", "port: 8081}")
	k = w.open(t, "k8s-a")
	plan, err := k.Plan(t.Context(), *r)
	require.NoError(t, err)
	require.Contains(t, plan[len(plan)-1].Detail+plan[0].Detail, "Duplicate value")
	var o provisioner.Observation
	until(t, "it is refused", func() (bool, string) {
		o, err = k.Reconcile(t.Context(), r)
		return err != nil, ""
	})
	require.ErrorIs(t, err, provisioner.ErrInvalid)
	require.ErrorContains(t, err, "earlier has written entries of Service "+name+" too")
	require.Equal(t, provisioner.PhaseReady, o.Phase, "it serves as before")
	require.NoError(t, services.Delete(t.Context(), name, metav1.DeleteOptions{}))
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
	is, err := services.Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 8081, is.Spec.Ports[0].Port)
}
