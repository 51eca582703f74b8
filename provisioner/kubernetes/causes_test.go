package kubernetes

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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
	t.Run("Autoscaler", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, with(t, "deployment", `cpu: "{{ .CPU }}"`, `cpu: "9999"`))
		k, r := w.open(t, "k8s-a"), newResource(provisioner.RuntimeArgs{Slots: 1})
		var pod *unstructured.Unstructured
		until(t, "a pod has no node", func() (bool, string) {
			o, err := driveToReason(t, k.Reconcile, r, "Unschedulable")
			require.NoError(t, err)
			for _, is := range w.objects("k8s-a", r.ID) {
				if is.GetKind() == "Pod" {
					pod = &is
				}
			}
			return pod != nil && strings.Contains(o.Message, "Insufficient cpu"), o.Message
		})
		for said, want := range map[[2]string]string{
			{"NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached"}: "; no scale-up: 1 max node group size reached",
			{"TriggeredScaleUp", "pod triggered scale-up: [{pool 1->2 (max: 10)}]"}:             "; scale-up triggered: [{pool 1->2 (max: 10)}]",
		} {
			now := metav1.Now()
			_, err := w.Client.CoreV1().Events(w.Name).Create(t.Context(), &corev1.Event{
				ObjectMeta:     metav1.ObjectMeta{GenerateName: "scale-"},
				InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: w.Name, Name: pod.GetName(), UID: pod.GetUID()},
				Type:           corev1.EventTypeNormal, Reason: said[0], Message: said[1], LastTimestamp: now,
			}, metav1.CreateOptions{})
			require.NoError(t, err)
			until(t, "it is told", func() (bool, string) {
				o, err := k.Reconcile(t.Context(), r)
				require.NoError(t, err)
				return o.Reason == "Unschedulable" && strings.HasSuffix(o.Message, want), o.Message
			})
			require.NoError(t, w.Client.CoreV1().Events(w.Name).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "reason=" + said[0]}))
		}
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

// A key that is dropped from a Secret is gone from it, and one that somebody changed is put right. No value is told.
func TestSecretChanges(t *testing.T) {
	t.Parallel()
	texts := maps.Clone(suiteTemplates)
	const secret = "apiVersion: v1\nkind: Secret\nstringData:\n  URL: http://{{ .Host }}\n"
	texts["secret"] = secret + "  API_KEY: old-key\n"
	w := newWorld(t, written(t, texts))
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	drive(t, w.open(t, "k8s-a").Reconcile, r, provisioner.PhaseReady)
	texts["secret"] = secret
	w.paths = written(t, texts)
	k := w.open(t, "k8s-a")
	plan, err := k.Plan(t.Context(), *r)
	require.NoError(t, err)
	require.Len(t, plan, 1)
	require.Contains(t, plan[0].Detail, "data.API_KEY")
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
	is := func() map[string][]byte {
		s, err := w.Client.CoreV1().Secrets(w.Name).Get(t.Context(), "secret-"+r.ProvisionID(), metav1.GetOptions{})
		require.NoError(t, err)
		return s.Data
	}
	right := map[string][]byte{"URL": []byte("http://node-" + r.ProvisionID() + ".localhost")}
	require.Equal(t, right, is())

	_, err = w.Client.CoreV1().Secrets(w.Name).Patch(t.Context(), "secret-"+r.ProvisionID(), "application/merge-patch+json", []byte(`{"data":{"URL":"ZXZpbA=="}}`), metav1.PatchOptions{FieldManager: "hand"})
	require.NoError(t, err)
	require.Equal(t, []string{"Secret secret-" + r.ProvisionID() + ": data.URL"}, observed1(t, k, r).Drift)
	edited, err := k.Plan(t.Context(), *r)
	require.NoError(t, err)
	require.Len(t, edited, 1)
	require.Contains(t, edited[0].Detail, "data.URL")
	for _, p := range append(plan, edited...) {
		for _, value := range []string{"evil", "ZXZpbA", "old-key", "b2xkLWtleQ", "aHR0cDov"} {
			require.NotContains(t, p.Detail, value)
		}
	}
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
	require.Equal(t, right, is())
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
