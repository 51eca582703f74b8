package kubernetes

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/provisioner"
)

// A plan can be made of whatever there is: of nothing, of all, of disks alone, and of a deletion that was begun. It changes nothing.
func TestPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t, written(t, suiteTemplates))
	k := w.open(t, "k8s-a")
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	planned := func() (lines []string) {
		t.Helper()
		before, state := w.versions("k8s-a", r.ID), string(r.State)
		all, err := k.Plan(t.Context(), *r)
		require.NoError(t, err)
		require.Equal(t, before, w.versions("k8s-a", r.ID), "it is only a look")
		require.Equal(t, state, string(r.State))
		for _, c := range all {
			lines = append(lines, strings.ReplaceAll(strings.TrimSpace(c.Action+" "+c.Ref+" "+c.Detail), r.ProvisionID(), "ID"))
		}
		return lines
	}
	all := []string{"create ConfigMap berth.ID", "create PersistentVolumeClaim runtime-ID", "create Deployment runtime-ID", "create Service runtime-ID"}
	require.ElementsMatch(t, all, planned())
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
	quiet(t, w, k, r)
	require.Empty(t, planned())

	drive(t, k.Hibernate, r, provisioner.PhaseHibernated)
	r.Args = provisioner.Encode(provisioner.RuntimeArgs{Slots: 2})
	got := planned()
	require.Len(t, got, len(all))
	require.Contains(t, got, "create ConfigMap berth.ID")
	require.Contains(t, strings.Join(got, "\n"), `update PersistentVolumeClaim runtime-ID spec.resources.requests.storage: "1G" -> "2G"`)
	drive(t, k.Reconcile, r, provisioner.PhaseReady)

	services := w.Client.CoreV1().Services(w.Name)
	patch := func(body string) {
		_, err := services.Patch(t.Context(), "runtime-"+r.ProvisionID(), "application/merge-patch+json", []byte(body), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	patch(`{"metadata":{"finalizers":["example.test/hold"]}}`)
	until(t, "only the Service is left", func() (bool, string) {
		o, err := k.Hibernate(t.Context(), r)
		require.NoError(t, err)
		return o.Reason == reasonLeaving && len(w.uids("k8s-a", r.ID, "Deployment"))+len(w.uids("k8s-a", r.ID, "Pod")) == 0, o.Message
	})
	quiet(t, w, k, r)
	require.Contains(t, planned(), "delete Service runtime-ID its deletion was begun, and is finished first")
	require.NotContains(t, planned(), "create PersistentVolumeClaim runtime-ID", "disks stay")
	patch(`{"metadata":{"finalizers":null}}`)
	drive(t, k.Deprovision, r, provisioner.PhaseAbsent)
	require.Empty(t, w.objects("k8s-a", uuid.Nil))
}
