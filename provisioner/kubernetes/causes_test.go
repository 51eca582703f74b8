package kubernetes

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/provisioner"
	"berth/provisioner/kubernetes/kubetest"
)

// with are the templates of the suite with some text replaced.
func with(t *testing.T, key, old, text string) map[string]string {
	t.Helper()
	all := maps.Clone(suiteTemplates)
	require.Contains(t, all[key], old)
	all[key] = strings.ReplaceAll(all[key], old, text)
	return written(t, all)
}

// quota makes a quota, and waits until it is in force.
func (w *world) quota(t *testing.T, name string, of corev1.ResourceName, most string) {
	t.Helper()
	quotas := w.Client.CoreV1().ResourceQuotas(w.Name)
	_, err := quotas.Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{of: resource.MustParse(most)}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	until(t, "the quota is in force", func() (bool, string) {
		q, err := quotas.Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		return len(q.Status.Hard) > 0, ""
	})
}

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

// No room by a quota: the figures are told, it waits, and starts by itself when the quota is raised.
func TestQuotaRaised(t *testing.T) {
	t.Parallel()
	w := newWorld(t, written(t, suiteTemplates))
	w.quota(t, "small", "pods", "0")
	k := w.open(t, "k8s-a")
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	o, err := driveToReason(t, k.Reconcile, r, reasonQuota)
	require.ErrorIs(t, err, provisioner.ErrNoCapacity)
	require.Equal(t, provisioner.PhasePending, o.Phase)
	require.Contains(t, o.Message, "exceeded quota: small, requested: pods=1, used: pods=0, limited: pods=0")
	_, err = w.Client.CoreV1().ResourceQuotas(w.Name).Patch(t.Context(), "small", "application/merge-patch+json", []byte(`{"spec":{"hard":{"pods":"9"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	until(t, "it starts", func() (bool, string) {
		o, err = k.Reconcile(t.Context(), r)
		return err == nil && o.Phase == provisioner.PhaseReady, o.Message
	})
}

// The disk itself may be what there is no room for.
func TestQuotaOfDisks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, written(t, suiteTemplates))
	w.quota(t, "disks", "persistentvolumeclaims", "0")
	k := w.open(t, "k8s-a")
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	o, err := k.Reconcile(t.Context(), r)
	require.ErrorIs(t, err, provisioner.ErrNoCapacity)
	require.ErrorContains(t, err, "exceeded quota: disks")
	require.Equal(t, provisioner.PhasePending, o.Phase)
	capacity, err := k.Check(t.Context())
	require.NoError(t, err)
	require.Contains(t, strings.Join(capacity.Problems, "\n"), "quota disks: 0 of 0 of persistentvolumeclaims used, 0 left")
	drive(t, k.Deprovision, r, provisioner.PhaseAbsent)
}

// An image that can not be pulled is told by its name, and a version that can be starts at once.
func TestImageCorrected(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with(t, "deployment", `"{{ .Image }}:{{ .ImageTag }}"`, `"{{ if eq .Version "6.6.6" }}`+kubetest.MissingImages+`{{ end }}image:{{ .ImageTag }}"`))
	k := w.open(t, "k8s-a")
	r := newResource(provisioner.RuntimeArgs{Slots: 1, Version: "6.6.6"})
	o, err := driveToReason(t, k.Reconcile, r, "ImagePullBackOff")
	require.NoError(t, err)
	require.Equal(t, provisioner.PhasePending, o.Phase)
	require.Contains(t, o.Message, kubetest.MissingImages+"image:6.6.6")
	require.Contains(t, o.Message, "not found")
	r.Args = provisioner.Encode(provisioner.RuntimeArgs{Slots: 1, Version: "1.2.3"})
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
}

// An update that can not be completed while what was there before serves is no outage.
func TestUpdateThatIsStuck(t *testing.T) {
	t.Parallel()
	paths := with(t, "deployment", `"{{ .Image }}:{{ .ImageTag }}"`, `"{{ if eq .Version "6.6.6" }}`+kubetest.MissingImages+`{{ end }}image:{{ .ImageTag }}"`)
	w := newWorld(t, paths)
	all := maps.Clone(suiteTemplates)
	all["deployment"] = strings.ReplaceAll(strings.ReplaceAll(all["deployment"], "strategy: {type: Recreate}", "replicas: 1"), `"{{ .Image }}:{{ .ImageTag }}"`,
		`"{{ if eq .Version "6.6.6" }}`+kubetest.MissingImages+`{{ end }}image:{{ .ImageTag }}"`)
	w.paths = written(t, all)
	k := w.open(t, "k8s-a")
	r := newResource(provisioner.RuntimeArgs{Slots: 1, Version: "1.2.3"})
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
	r.Args = provisioner.Encode(provisioner.RuntimeArgs{Slots: 1, Version: "6.6.6"})
	o, err := driveToReason(t, k.Reconcile, r, "ImagePullBackOff")
	require.Error(t, err)
	require.NotErrorIs(t, err, provisioner.ErrInvalid)
	require.Equal(t, provisioner.PhaseReady, o.Phase)
	r.Args = provisioner.Encode(provisioner.RuntimeArgs{Slots: 1, Version: "1.2.3"})
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
}

// Every cause has its reason.
func TestCauses(t *testing.T) {
	t.Parallel()
	for reason, annotation := range map[string]string{
		"CrashLoopBackOff": "CrashLoopBackOff", "OOMKilled": "OOMKilled", "CreateContainerConfigError": "CreateContainerConfigError", "NotReady": "NotReady",
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, with(t, "deployment", "metadata: {labels: {runtime: {{ .ProvisionID | quote }}}}",
				`metadata: {labels: {runtime: {{ .ProvisionID | quote }}}, annotations: {"`+kubetest.FailAnnotation+`": `+annotation+`}}`))
			k := w.open(t, "k8s-a")
			r := newResource(provisioner.RuntimeArgs{Slots: 1})
			until(t, "it says why", func() (bool, string) {
				o, err := k.Reconcile(t.Context(), r)
				require.NoError(t, err)
				return o.Reason == reason && strings.Contains(o.Message, "Pod runtime-"+r.ProvisionID()), o.Reason + o.Message
			})
		})
	}
	t.Run("Unschedulable", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, with(t, "deployment", `cpu: "{{ .CPU }}"`, `cpu: "9999"`))
		k, r := w.open(t, "k8s-a"), newResource(provisioner.RuntimeArgs{Slots: 1})
		until(t, "it says what it lacks", func() (bool, string) {
			o, err := driveToReason(t, k.Reconcile, r, "Unschedulable")
			require.NoError(t, err)
			return strings.Contains(o.Message, "Insufficient cpu"), o.Message // its disk came first
		})
	})
	t.Run("PodSecurity", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, written(t, suiteTemplates))
		_, err := w.Client.CoreV1().Namespaces().Patch(t.Context(), w.Name, "application/merge-patch+json",
			[]byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		until(t, "it is in force", func() (bool, string) {
			_, err := w.Client.CoreV1().Pods(w.Name).Create(context.Background(), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "try"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "main"}}},
			}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err != nil, ""
		})
		o, err := driveToReason(t, w.open(t, "k8s-a").Reconcile, newResource(provisioner.RuntimeArgs{Slots: 1}), "PodSecurity")
		require.NoError(t, err)
		require.Contains(t, o.Message, "violates PodSecurity")
	})
}

// What a template does not ask for any more goes, but for disks, and what somebody changed by hand is put right without new pods.
func TestChangedByHand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, written(t, suiteTemplates))
	k := w.open(t, "k8s-a")
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
	pods := w.uids("k8s-a", r.ID, "Pod")
	services := w.Client.CoreV1().Services(w.Name)
	_, err := services.Patch(t.Context(), "runtime-"+r.ProvisionID(), "application/merge-patch+json", []byte(`{"spec":{"selector":{"runtime":"another"}}}`), metav1.PatchOptions{FieldManager: "hand"})
	require.NoError(t, err)
	require.Equal(t, []string{"Service runtime-" + r.ProvisionID() + ": spec.selector.runtime"}, observed1(t, k, r).Drift)
	plan, err := k.Plan(t.Context(), *r)
	require.NoError(t, err)
	require.Len(t, plan, 1)
	require.Contains(t, plan[0].Detail, `spec.selector.runtime: "another" -> "`+r.ProvisionID()+`"`)
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
	is, err := services.Get(t.Context(), "runtime-"+r.ProvisionID(), metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, r.ProvisionID(), is.Spec.Selector["runtime"])
	require.Equal(t, pods, w.uids("k8s-a", r.ID, "Pod"))
	require.Empty(t, observed1(t, k, r).Drift)

	fewer := maps.Clone(suiteTemplates)
	delete(fewer, "service")
	fewer["deployment"] = strings.ReplaceAll(fewer["deployment"], "strategy: {type: Recreate}", "replicas: 1")
	w.paths = written(t, fewer)
	k = w.open(t, "k8s-a")
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
	require.Empty(t, w.uids("k8s-a", r.ID, "Service"))
	require.Equal(t, pods, w.uids("k8s-a", r.ID, "Pod"), "no new pods for it")
	w.paths = written(t, suiteTemplates) // and back to Recreate
	k = w.open(t, "k8s-a")
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
	require.NotEmpty(t, w.uids("k8s-a", r.ID, "Service"))
	require.Equal(t, pods, w.uids("k8s-a", r.ID, "Pod"), "no new pods for it")
	drive(t, k.Deprovision, r, provisioner.PhaseAbsent)
	require.Empty(t, w.objects("k8s-a", uuid.Nil))
}
