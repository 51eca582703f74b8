package kubernetes

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth/provisioner"
	"berth/provisioner/kubernetes/kubetest"
)

// A disk grows where its class lets it, never shrinks, and the config says how large it is.
func TestDiskGrows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, written(t, suiteTemplates))
	k := w.open(t, "k8s-a")
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
	disks := w.uids("k8s-a", r.ID, "PersistentVolumeClaim")
	for _, slots := range []int{3, 2} {
		r.Args = provisioner.Encode(provisioner.RuntimeArgs{Slots: slots})
		until(t, "the config says what there is", func() (bool, string) {
			drive(t, k.Reconcile, r, provisioner.PhaseReady)
			return config(t, r).StorageBytes == 3e9, string(r.Config)
		})
		require.Equal(t, slots, config(t, r).Slots)
		require.Equal(t, disks, w.uids("k8s-a", r.ID, "PersistentVolumeClaim"))
	}
}

// So do the disks that a StatefulSet made, although what it asks for can not be changed.
func TestDisksOfAStatefulSetGrow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, templates(t, "testdata/sets/game-server"))
	k := w.open(t, "k8s-a")
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
	sets, disks := w.uids("k8s-a", r.ID, "StatefulSet"), w.uids("k8s-a", r.ID, "PersistentVolumeClaim")
	for _, slots := range []int{3, 2} {
		r.Args = provisioner.Encode(provisioner.RuntimeArgs{Slots: slots})
		until(t, "the config says what there is", func() (bool, string) {
			drive(t, k.Reconcile, r, provisioner.PhaseReady)
			return config(t, r).StorageBytes == 3e9, string(r.Config)
		})
		require.Equal(t, disks, w.uids("k8s-a", r.ID, "PersistentVolumeClaim"))
		require.Equal(t, sets, w.uids("k8s-a", r.ID, "StatefulSet"))
	}
	quiet(t, w, k, r)
	before := w.versions("k8s-a", r.ID)
	drive(t, w.open(t, "k8s-a").Reconcile, r, provisioner.PhaseReady)
	require.Equal(t, before, w.versions("k8s-a", r.ID), "nothing has changed")
	plan, err := k.Plan(t.Context(), *r)
	require.NoError(t, err)
	require.Empty(t, plan)
}

// A disk of a class that can not grow is kept with what uses it, and both sizes are told.
func TestDiskThatCanNotGrow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with(t, "pvc", "accessModes:", "storageClassName: "+kubetest.ClassFixed+"\n  accessModes:"))
	k := w.open(t, "k8s-a")
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
	pods, config := w.uids("k8s-a", r.ID, "Pod"), string(r.Config)
	r.Args = provisioner.Encode(provisioner.RuntimeArgs{Slots: 2})
	var err error
	var o provisioner.Observation
	until(t, "it is refused", func() (bool, string) {
		o, err = k.Reconcile(t.Context(), r)
		return err != nil, ""
	})
	require.ErrorIs(t, err, provisioner.ErrInvalid)
	require.NotErrorIs(t, err, provisioner.ErrUnavailable)
	require.ErrorContains(t, err, "has 1G and can not grow to 2G: storage class \"fixed\" does not allow it")
	require.Equal(t, provisioner.PhaseReady, o.Phase)
	require.Equal(t, config, string(r.Config))
	require.Equal(t, pods, w.uids("k8s-a", r.ID, "Pod"))
	r.Args = provisioner.Encode(provisioner.RuntimeArgs{Slots: 1})
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
}

// disk is the one disk of a resource.
func (w *world) disk(t *testing.T, r *provisioner.Resource) *unstructured.Unstructured {
	t.Helper()
	is, err := w.dynamic.Resource(someKinds[4]).Namespace(w.Name).Get(t.Context(), "runtime-"+r.ProvisionID(), metav1.GetOptions{})
	require.NoError(t, err)
	return is
}

// A disk that its storage does not make as large as was asked for is told as large as it is, and asks for less when less is wanted, as
// long as that is more than it has.
func TestDiskGrownTooFar(t *testing.T) {
	t.Parallel()
	w := newWorld(t, written(t, suiteTemplates))
	k := w.open(t, "k8s-a")
	r := newResource(provisioner.RuntimeArgs{Slots: 2})
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
	annotate := func(body string) {
		_, err := w.Client.CoreV1().PersistentVolumeClaims(w.Name).Patch(t.Context(), "runtime-"+r.ProvisionID(), "application/merge-patch+json",
			[]byte(`{"metadata":{"annotations":{"`+kubetest.FailAnnotation+`":`+body+`}}}`), metav1.PatchOptions{FieldManager: "hand"})
		require.NoError(t, err)
	}
	annotate(`"no space left in the pool"`)
	uid := w.disk(t, r).GetUID()
	for _, step := range []struct {
		slots int
		asks  string
	}{{8, "8G"}, {3, "3G"}, {1, "3G"}, {5, "5G"}, {4, "4G"}} {
		r.Args = provisioner.Encode(provisioner.RuntimeArgs{Slots: step.slots})
		drive(t, k.Reconcile, r, provisioner.PhaseReady)
		is := w.disk(t, r)
		require.Equal(t, step.asks, size(is, pathRequest).String(), "with %d slots", step.slots)
		require.Equal(t, int64(2e9), config(t, r).StorageBytes)
		require.Equal(t, step.slots, config(t, r).Slots)
		require.Equal(t, uid, is.GetUID())
	}
	annotate("null")
	until(t, "it grows", func() (bool, string) {
		drive(t, k.Reconcile, r, provisioner.PhaseReady)
		return config(t, r).StorageBytes == 4e9, string(r.Config)
	})
}

// A disk whose file system waits for a pod to grow does not keep the pod from being made.
func TestDiskWaitsForAPodToGrow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, written(t, suiteTemplates))
	k := w.open(t, "k8s-a")
	l := listen(t, k)
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
	patch := func(body string, subresources ...string) {
		_, err := w.Client.CoreV1().PersistentVolumeClaims(w.Name).Patch(t.Context(), "runtime-"+r.ProvisionID(), "application/merge-patch+json", []byte(body), metav1.PatchOptions{FieldManager: "hand"}, subresources...)
		require.NoError(t, err)
	}
	patch(`{"metadata":{"annotations":{"` + kubetest.FailAnnotation + `":"its driver is done, and a pod is to do the rest"}}}`)
	for slots := range 2 {
		drive(t, k.Hibernate, r, provisioner.PhaseHibernated)
		r.Args = provisioner.Encode(provisioner.RuntimeArgs{Slots: 2 + slots})
		patch(`{"status":{"conditions":[{"type":"Unused","status":"True","reason":"NoPodsUsingPVC"},
			{"type":"FileSystemResizePending","status":"True","message":"Waiting for user to (re-)start a pod to finish file system resize of volume on node."}]}}`, "status")
		drive(t, k.Reconcile, r, provisioner.PhaseReady)
		require.Equal(t, provisioner.PhaseReady, observed1(t, k, r).Phase)
		require.Equal(t, int64(1e9), config(t, r).StorageBytes)
	}
	was := l.times(r.ID)
	patch(`{"metadata":{"annotations":{"` + kubetest.FailAnnotation + `":null}}}`)
	l.news(r.ID, was)
	until(t, "the config says what there is", func() (bool, string) {
		drive(t, k.Reconcile, r, provisioner.PhaseReady)
		return config(t, r).StorageBytes == 3e9, string(r.Config)
	})
}

// A disk that somebody deletes while it is used is lost once nobody uses it any more. That is said, and what uses it is stopped when that
// is asked for; a new one is made then.
func TestDiskIsDeletedByHand(t *testing.T) {
	t.Parallel()
	for name, paths := range map[string]map[string]string{"of a template": written(t, suiteTemplates), "of a StatefulSet": templates(t, "testdata/sets/game-server")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, paths)
			k := w.open(t, "k8s-a")
			listen(t, k)
			r := newResource(provisioner.RuntimeArgs{Slots: 1})
			drive(t, k.Reconcile, r, provisioner.PhaseReady)
			quiet(t, w, k, r)
			disk := func() *unstructured.Unstructured {
				t.Helper()
				for _, o := range w.objects("k8s-a", r.ID) {
					if isVolume(&o) {
						return &o
					}
				}
				t.Fatal("there is no disk")
				return nil
			}
			lost := disk()
			require.NoError(t, w.Client.CoreV1().PersistentVolumeClaims(w.Name).Delete(t.Context(), lost.GetName(), metav1.DeleteOptions{}))
			leaving := disk()
			require.NotNil(t, leaving.GetDeletionTimestamp(), "its pod holds it")
			for _, slots := range []int{1, 2} { // nothing of it is applied onto what goes
				r.Args = provisioner.Encode(provisioner.RuntimeArgs{Slots: slots})
				o, err := driveToReason(t, k.Reconcile, r, reasonLeaving)
				require.NoError(t, err)
				require.Equal(t, provisioner.PhasePending, o.Phase)
				require.Contains(t, o.Message, "PersistentVolumeClaim "+lost.GetName()+" is gone, which was deleted at ")
				require.Contains(t, o.Message, "held by kubernetes.io/pvc-protection")
				require.Contains(t, o.Message, "what is on it goes with it")
				require.Equal(t, reasonLeaving, observed1(t, k, r).Reason)
				require.Equal(t, leaving.GetResourceVersion(), disk().GetResourceVersion())
			}
			drive(t, k.Hibernate, r, provisioner.PhaseHibernated)
			drive(t, k.Reconcile, r, provisioner.PhaseReady)
			require.NotEqual(t, lost.GetUID(), disk().GetUID())
			drive(t, k.Deprovision, r, provisioner.PhaseAbsent)
			require.Empty(t, w.objects("k8s-a", r.ID))
		})
	}
}
