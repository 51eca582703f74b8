package kubernetes

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth/provisioner"
)

// What a worker sends after others have hibernated and woken a resource: what it makes is collected, what it would change or delete is
// refused, and what the others made is not touched.
func TestLateWrites(t *testing.T) {
	t.Parallel()
	w := newWorld(t, written(t, suiteTemplates))
	early, later := w.open(t, "k8s-a"), w.open(t, "k8s-a")
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	drive(t, early.Reconcile, r, provisioner.PhaseReady)
	before, err := early.look(t.Context(), *r)
	require.NoError(t, err)
	drive(t, later.Hibernate, r, provisioner.PhaseHibernated)
	drive(t, later.Reconcile, r, provisioner.PhaseReady)
	after, err := later.look(t.Context(), *r)
	require.NoError(t, err)
	require.NotEqual(t, before.anchor.GetUID(), after.anchor.GetUID())
	quiet(t, w, later, r)
	versions := w.versions("k8s-a", r.ID)

	objects, err := early.spec.Render(*r, provisioner.RuntimeArgs{Slots: 7}, testInstallation)
	require.NoError(t, err)
	for _, o := range objects {
		wish := newWish(o.Unstructured)
		was := before.objects[wish.key]
		_, err := early.create(t.Context(), &notes{Seen: map[string]seen{}}, wish, before.anchor.GetUID(), r.ProvisionID())
		require.ErrorIs(t, err, errMoved, "made where there is one: %s", wish.key)
		if !isVolume(was) {
			_, err = early.cluster.apply(t.Context(), early.conditioned(wish, "late", was, before.anchor.GetUID()), false)
			require.True(t, apierrors.IsConflict(err), "applied with an earlier uid and version: %v", err)
			o := early.conditioned(wish, "late", was, before.anchor.GetUID())
			o.SetResourceVersion("")
			_, err = early.cluster.apply(t.Context(), o, false)
			require.Error(t, err, "applied with an earlier uid alone: %s", wish.key)
			require.NoError(t, early.cluster.remove(t.Context(), was, false), "deleted with an earlier uid")
		}
	}
	require.NoError(t, early.cluster.remove(t.Context(), before.anchor, false))
	require.Equal(t, versions, w.versions("k8s-a", r.ID), "nothing of it had an effect")

	// What is made under a name that nobody uses now is collected, a disk too.
	for _, o := range objects {
		wish := newWish(o.Unstructured)
		wish.SetName("late-" + r.ProvisionID())
		made := early.marked(wish, "")
		ownedBy(made, before.anchor.GetUID(), before.anchor.GetName())
		made.SetResourceVersion(noVersion)
		is, err := early.cluster.apply(t.Context(), made, false)
		require.NoError(t, err)
		awaitCollected(t, w, is)
	}
	require.Equal(t, provisioner.PhaseReady, drive(t, later.Reconcile, r, provisioner.PhaseReady).Phase)
	drive(t, later.Deprovision, r, provisioner.PhaseAbsent)
	require.Empty(t, w.objects("k8s-a", uuid.Nil))
}

func awaitCollected(t *testing.T, w *world, o *unstructured.Unstructured) {
	t.Helper()
	until(t, titleOf(o)+" is collected", func() (bool, string) {
		for _, there := range w.objects("k8s-a", uuid.Nil) {
			if there.GetUID() == o.GetUID() {
				return false, there.GetName()
			}
		}
		return true, ""
	})
}

// A late request that makes an anchor is all that can be left: nothing acts on it, it is listed, and it is removed by its uid.
func TestLateAnchor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, written(t, suiteTemplates))
	k := w.open(t, "k8s-a")
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	drive(t, k.Deprovision, r, provisioner.PhaseAbsent)
	_, err := k.create(t.Context(), &notes{Seen: map[string]seen{}}, newWish(k.anchor(k.owner(*r), provisioner.RuntimeArgs{Slots: 1}, k.kinds)), "", "")
	require.NoError(t, err)
	require.Equal(t, provisioner.PhaseAbsent, observed1(t, k, r).Phase)
	all, err := k.List(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, r.ID, all[0].ResourceID)
	require.NoError(t, k.Remove(t.Context(), all[0]))
	require.NoError(t, k.Remove(t.Context(), all[0]), "gone already")
	require.Empty(t, w.objects("k8s-a", uuid.Nil))
}

// A foreign finalizer holds: the reason names it, and it is never taken off by us.
func TestForeignFinalizer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, written(t, suiteTemplates))
	k := w.open(t, "k8s-a")
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
	services := w.Client.CoreV1().Services(w.Name)
	patch := func(body string) {
		_, err := services.Patch(t.Context(), "runtime-"+r.ProvisionID(), "application/merge-patch+json", []byte(body), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	patch(`{"metadata":{"finalizers":["example.test/hold"]}}`)
	for _, do := range []method{k.Hibernate, k.Deprovision} {
		o, err := driveToReason(t, do, r, reasonLeaving)
		require.NoError(t, err)
		until(t, "only the Service is left", func() (bool, string) {
			o, err = do(t.Context(), r)
			require.NoError(t, err)
			return o.Reason == reasonLeaving && len(w.uids("k8s-a", r.ID, "Deployment")) == 0, o.Message
		})
		require.Equal(t, provisioner.PhasePending, o.Phase)
		require.Contains(t, o.Message, "Service runtime-"+r.ProvisionID())
		require.Contains(t, o.Message, "example.test/hold")
	}
	require.NotEmpty(t, w.uids("k8s-a", r.ID, "PersistentVolumeClaim"), "the disks go last")
	patch(`{"metadata":{"finalizers":null}}`)
	drive(t, k.Deprovision, r, provisioner.PhaseAbsent)
	require.Empty(t, w.objects("k8s-a", uuid.Nil))
}

// What somebody deletes, and somebody else's finalizer holds, is neither there nor gone: nothing is applied onto it, and it is made anew
// once it is gone.
func TestHeldAfterItWasDeletedByHand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, written(t, suiteTemplates))
	k := w.open(t, "k8s-a")
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
	quiet(t, w, k, r)
	deployments := w.Client.AppsV1().Deployments(w.Name)
	patch := func(body string) {
		_, err := deployments.Patch(t.Context(), "runtime-"+r.ProvisionID(), "application/merge-patch+json", []byte(body), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	patch(`{"metadata":{"finalizers":["example.test/hold"]}}`)
	require.NoError(t, deployments.Delete(t.Context(), "runtime-"+r.ProvisionID(), metav1.DeleteOptions{}))
	quiet(t, w, k, r)
	before := w.versions("k8s-a", r.ID)
	for _, slots := range []int{1, 2} {
		r.Args = provisioner.Encode(provisioner.RuntimeArgs{Slots: slots})
		o, err := driveToReason(t, k.Reconcile, r, reasonLeaving)
		require.NoError(t, err)
		require.Equal(t, provisioner.PhasePending, o.Phase)
		require.Contains(t, o.Message, "Deployment runtime-"+r.ProvisionID())
		require.Contains(t, o.Message, "held by example.test/hold")
		require.NotEqual(t, provisioner.PhaseReady, observed1(t, k, r).Phase)
	}
	key := "Deployment runtime-" + r.ProvisionID()
	require.Equal(t, before[key], w.versions("k8s-a", r.ID)[key])
	disks, held := w.uids("k8s-a", r.ID, "PersistentVolumeClaim"), w.uids("k8s-a", r.ID, "Deployment")

	// A restart that is asked for meanwhile says the same, and goes on with what comes after.
	o, err := driveToReason(t, k.Hibernate, r, reasonLeaving)
	require.NoError(t, err)
	require.Contains(t, o.Message, "held by example.test/hold")
	patch(`{"metadata":{"finalizers":null}}`)
	drive(t, k.Hibernate, r, provisioner.PhaseHibernated)
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
	require.Equal(t, disks, w.uids("k8s-a", r.ID, "PersistentVolumeClaim"))
	require.NotEqual(t, held, w.uids("k8s-a", r.ID, "Deployment"))
}

// A kind that has left the templates is still waited for, although the anchor that named it is gone first.
func TestHeldOfAKindThatIsGone(t *testing.T) {
	t.Parallel()
	all := maps.Clone(suiteTemplates)
	all["account"] = "apiVersion: v1\nkind: ServiceAccount\n"
	w := newWorld(t, written(t, all))
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	drive(t, w.open(t, "k8s-a").Reconcile, r, provisioner.PhaseReady)
	w.paths = written(t, suiteTemplates)
	accounts := w.Client.CoreV1().ServiceAccounts(w.Name)
	held := func(finalizers string) {
		_, err := accounts.Patch(t.Context(), "account-"+r.ProvisionID(), "application/merge-patch+json", []byte(`{"metadata":{"finalizers":`+finalizers+`}}`), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	for _, do := range []struct {
		call  func(*Kubernetes) method
		phase provisioner.Phase
	}{
		{func(k *Kubernetes) method { return k.Hibernate }, provisioner.PhaseHibernated},
		{func(k *Kubernetes) method { return k.Deprovision }, provisioner.PhaseAbsent},
	} {
		held(`["example.test/hold"]`)
		until(t, "only the account is left", func() (bool, string) {
			o, err := do.call(w.open(t, "k8s-a"))(t.Context(), r) // by another process each time
			require.NoError(t, err)
			require.Equal(t, provisioner.PhasePending, o.Phase)
			return o.Reason == reasonLeaving && strings.Contains(o.Message, "ServiceAccount account-") && len(w.uids("k8s-a", r.ID, "ConfigMap")) == 0, o.Message
		})
		held("null")
		drive(t, do.call(w.open(t, "k8s-a")), r, do.phase)
		if do.phase == provisioner.PhaseHibernated {
			w.paths = written(t, all)
			drive(t, w.open(t, "k8s-a").Reconcile, r, provisioner.PhaseReady)
			w.paths = written(t, suiteTemplates)
		}
	}
	require.Empty(t, w.objects("k8s-a", uuid.Nil))
}

// Two provisioners, and somebody else, in one namespace with objects of the same names: each leaves the others' alone.
func TestNamesOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, written(t, suiteTemplates))
	a, b := w.open(t, "k8s-a"), w.open(t, "k8s-b")
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	drive(t, a.Reconcile, r, provisioner.PhaseReady)
	quiet(t, w, a, r)
	before := w.versions("k8s-a", r.ID)
	s := &provisioner.Resource{ID: r.ID, Type: r.Type, Args: r.Args}
	o, err := driveToReason(t, b.Reconcile, s, reasonTaken)
	require.ErrorIs(t, err, errTaken)
	require.ErrorContains(t, err, `provisioner "k8s-a"`)
	require.NotEqual(t, provisioner.PhaseReady, o.Phase)
	drive(t, b.Hibernate, s, provisioner.PhaseHibernated)
	drive(t, b.Deprovision, s, provisioner.PhaseAbsent)
	require.Equal(t, before, w.versions("k8s-a", r.ID))
	require.Equal(t, provisioner.PhaseReady, observed1(t, a, r).Phase)
	drive(t, a.Deprovision, r, provisioner.PhaseAbsent)
	require.Empty(t, w.objects("k8s-a", uuid.Nil))
	require.Empty(t, w.objects("k8s-b", uuid.Nil))
}
