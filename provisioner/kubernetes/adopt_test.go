package kubernetes

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/provisioner"
)

// What a call made whose outcome was lost is as good as if it had not been: it costs nothing from then on, and what was edited meanwhile is
// changed back.
func TestOutcomeIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, written(t, unmounted(t)))
	wire := w.wired()
	k := w.open(t, "k8s-a")
	l := listen(t, k)
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	name := "runtime-" + r.ProvisionID()
	l.driven(k.Reconcile, r, provisioner.PhaseReady)
	until(t, "the disk is bound", func() (bool, string) {
		disk, err := w.Client.CoreV1().PersistentVolumeClaims(w.Name).Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		return disk.Status.Phase == "Bound", string(disk.Status.Phase)
	})
	lost := func(state json.RawMessage) {
		made := w.versions("k8s-a", r.ID)
		r.State = state
		drive(t, k.Reconcile, r, provisioner.PhaseReady)
		require.Equal(t, made, w.versions("k8s-a", r.ID), "nothing of it is written")
		wire.requests()
		drive(t, k.Reconcile, r, provisioner.PhaseReady)
		require.Equal(t, provisioner.PhaseReady, observed1(t, k, r).Phase)
		require.Empty(t, wire.requests())

		r.State = state
		deployments := w.Client.AppsV1().Deployments(w.Name)
		_, err := deployments.Patch(t.Context(), name, "application/strategic-merge-patch+json",
			[]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"runtime","image":"another"}]}}}}`), metav1.PatchOptions{FieldManager: "hand"})
		require.NoError(t, err)
		until(t, "it is as it was asked for", func() (bool, string) {
			o, err := k.Reconcile(t.Context(), r)
			require.NoError(t, err)
			d, err := deployments.Get(t.Context(), name, metav1.GetOptions{})
			require.NoError(t, err)
			image := d.Spec.Template.Spec.Containers[0].Image
			return o.Phase == provisioner.PhaseReady && image != "another", image
		})
	}
	lost(nil) // that of what made it

	r.Args = provisioner.Encode(provisioner.RuntimeArgs{Slots: 2})
	o, err := k.Reconcile(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, provisioner.PhasePending, o.Phase, "its state is stored before anything is changed")
	before := r.State
	l.driven(k.Reconcile, r, provisioner.PhaseReady)
	until(t, "the disk has grown", func() (bool, string) {
		drive(t, k.Reconcile, r, provisioner.PhaseReady)
		return config(t, r).StorageBytes == 2e9, string(r.Config)
	})
	quiet(t, w, k, r)
	lost(before) // and that of what changed it
	drive(t, k.Deprovision, r, provisioner.PhaseAbsent)
}
