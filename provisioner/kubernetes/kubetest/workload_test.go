package kubetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	applymeta "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/stretchr/testify/require"
)

func TestDeploymentBecomesAvailable(t *testing.T) {
	t.Parallel()
	n := New(t)
	begun := time.Now()
	apply(t, n, deployment(n, "web"))
	awaitAvailable(t, n, "web")
	t.Logf("available after %v", time.Since(begun))
	pod := awaitPod(t, n, "web", "is there", func(*corev1.Pod) bool { return true })
	require.Equal(t, corev1.PodRunning, pod.Status.Phase)
	require.Regexp(t, `^10\.\d+\.\d+\.\d+$`, pod.Status.PodIP)
}

func TestAppliedTwice(t *testing.T) {
	t.Parallel()
	n := New(t)
	apply(t, n, deployment(n, "web"))
	awaitAvailable(t, n, "web")
	var versions []string
	for range 2 {
		versions = append(versions, apply(t, n, deployment(n, "web")).ResourceVersion)
	}
	require.Equal(t, versions[0], versions[1], "what changes nothing writes nothing")
}

func TestConflictNamesTheManager(t *testing.T) {
	t.Parallel()
	n := New(t)
	maps := n.Client.CoreV1().ConfigMaps(n.Name)
	theirs := applycore.ConfigMap("settings", n.Name).WithData(map[string]string{"a": "1"})
	_, err := maps.Apply(t.Context(), theirs, metav1.ApplyOptions{FieldManager: "somebody"})
	require.NoError(t, err)
	_, err = maps.Apply(t.Context(), applycore.ConfigMap("settings", n.Name).WithData(map[string]string{"a": "2"}), manager)
	require.True(t, apierrors.IsConflict(err), "%v", err)
	require.ErrorContains(t, err, `conflict with "somebody": .data.a`)
}

func TestGarbageCollection(t *testing.T) {
	t.Parallel()
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationBackground} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			n := New(t)
			maps := n.Client.CoreV1().ConfigMaps(n.Name)
			owner, err := maps.Apply(t.Context(), applycore.ConfigMap("owner", n.Name), manager)
			require.NoError(t, err)
			owned := func(name string) *applycore.ConfigMapApplyConfiguration {
				return applycore.ConfigMap(name, n.Name).WithOwnerReferences(applymeta.OwnerReference().WithAPIVersion("v1").WithKind("ConfigMap").
					WithName(owner.Name).WithUID(owner.UID).WithBlockOwnerDeletion(true))
			}
			_, err = maps.Apply(t.Context(), owned("owned"), manager)
			require.NoError(t, err)
			begun := time.Now()
			require.NoError(t, maps.Delete(t.Context(), owner.Name, metav1.DeleteOptions{
				PropagationPolicy: &policy, Preconditions: &metav1.Preconditions{UID: &owner.UID},
			}))
			awaitGone(t, n, "owned")
			awaitGone(t, n, "owner")
			t.Logf("collected after %v", time.Since(begun))

			_, err = maps.Apply(t.Context(), owned("late"), manager)
			require.NoError(t, err, "what comes when its owner is gone is let in")
			awaitGone(t, n, "late")
		})
	}
}

func awaitGone(t *testing.T, n *Namespace, name string) {
	t.Helper()
	until(t, name+" is gone", func(ctx context.Context) (bool, error) {
		_, err := n.Client.CoreV1().ConfigMaps(n.Name).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}

func TestDeploymentAndAllOfItGo(t *testing.T) {
	t.Parallel()
	n := New(t)
	apply(t, n, deployment(n, "web"))
	awaitAvailable(t, n, "web")
	policy := metav1.DeletePropagationForeground
	require.NoError(t, n.Client.AppsV1().Deployments(n.Name).Delete(t.Context(), "web", metav1.DeleteOptions{PropagationPolicy: &policy}))
	until(t, "the deployment is gone", func(ctx context.Context) (bool, error) {
		_, err := n.Client.AppsV1().Deployments(n.Name).Get(ctx, "web", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	pods, err := n.Client.CoreV1().Pods(n.Name).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, pods.Items)
}

// TestPodsThatFail says what a client sees of pods that were told to fail, and that they recover when told so.
func TestPodsThatFail(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]struct {
		phase    corev1.PodPhase
		waiting  string
		last     string
		event    string
		message  string
		restarts int32
	}{
		"ImagePullBackOff": {corev1.PodPending, "ImagePullBackOff", "", "Failed", `Back-off pulling image "example.test/main:1"`, 0},
		"CrashLoopBackOff": {corev1.PodRunning, "CrashLoopBackOff", "Error", "BackOff", "restarting failed container=main", 3},
		"OOMKilled":        {corev1.PodRunning, "CrashLoopBackOff", "OOMKilled", "BackOff", "restarting failed container=main", 3},
		"NotReady":         {corev1.PodRunning, "", "", "Unhealthy", "", 0},
		"CreateError":      {corev1.PodPending, "CreateError", "", "Failed", "simulated", 0},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			n := New(t)
			apply(t, n, deployment(n, "web", FailAnnotation, reason))
			pod := awaitPod(t, n, "web", "has a status", func(p *corev1.Pod) bool { return len(p.Status.ContainerStatuses) == 1 })
			require.Equal(t, want.phase, pod.Status.Phase)
			c := pod.Status.ContainerStatuses[0]
			require.False(t, c.Ready)
			require.Equal(t, want.restarts, c.RestartCount)
			if want.waiting != "" {
				require.NotNil(t, c.State.Waiting)
				require.Equal(t, want.waiting, c.State.Waiting.Reason)
				require.Contains(t, c.State.Waiting.Message, want.message)
			}
			if want.last != "" {
				require.Equal(t, want.last, c.LastTerminationState.Terminated.Reason)
			}
			awaitEvent(t, n, want.event)

			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, FailAnnotation)
			_, err := n.Client.CoreV1().Pods(n.Name).Patch(t.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
			require.NoError(t, err)
			awaitAvailable(t, n, "web")
		})
	}
}

func TestMessageOfAFailure(t *testing.T) {
	t.Parallel()
	n := New(t)
	apply(t, n, deployment(n, "web", FailAnnotation, "ErrImagePull", MessageAnnotation, "toomanyrequests: slow down"))
	pod := awaitPod(t, n, "web", "has a status", func(p *corev1.Pod) bool { return len(p.Status.ContainerStatuses) == 1 })
	require.Equal(t, "toomanyrequests: slow down", pod.Status.ContainerStatuses[0].State.Waiting.Message)
	require.Contains(t, awaitEvent(t, n, "Failed"), "toomanyrequests: slow down")
}

func TestImageThatIsCorrected(t *testing.T) {
	t.Parallel()
	n := New(t)
	d := deployment(n, "web")
	d.Spec.Template.Spec.Containers[0].WithImage(MissingImages + "main:1")
	apply(t, n, d)
	awaitPod(t, n, "web", "can not be pulled", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting.Reason == "ImagePullBackOff"
	})
	apply(t, n, deployment(n, "web"))
	awaitAvailable(t, n, "web")
}

func TestPodThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	n := New(t)
	apply(t, n, deployment(n, "web", KeepAnnotation, ""))
	awaitAvailable(t, n, "web")
	pod := awaitPod(t, n, "web", "is there", func(*corev1.Pod) bool { return true })
	pods := n.Client.CoreV1().Pods(n.Name)
	require.NoError(t, pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{}))
	awaitPod(t, n, "web", "has taken its place", func(p *corev1.Pod) bool { return p.UID != pod.UID && p.Status.Phase == corev1.PodRunning })
	still, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.NotNil(t, still.DeletionTimestamp)

	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, KeepAnnotation)
	_, err = pods.Patch(t.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
	until(t, "the pod is gone", func(ctx context.Context) (bool, error) {
		_, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

func TestUnschedulable(t *testing.T) {
	t.Parallel()
	n := New(t)
	d := deployment(n, "web")
	d.Spec.Template.Spec.Containers[0].WithResources(applycore.ResourceRequirements().WithRequests(quantities("cpu", "1000")))
	apply(t, n, d)
	pod := awaitPod(t, n, "web", "finds no node", func(p *corev1.Pod) bool {
		return len(p.Status.Conditions) > 0 && p.Status.Conditions[0].Reason == corev1.PodReasonUnschedulable
	})
	require.Contains(t, pod.Status.Conditions[0].Message, "Insufficient cpu")
}

func TestJobsComplete(t *testing.T) {
	t.Parallel()
	n := New(t)
	for name, fail := range map[string]string{"good": "", "bad": "Error"} {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{BackoffLimit: new(int32), Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{FailAnnotation: fail}},
			Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "example.test/main:1"}}},
		}}}
		_, err := n.Client.BatchV1().Jobs(n.Name).Create(t.Context(), job, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	until(t, "both jobs are done", func(ctx context.Context) (bool, error) {
		list, err := n.Client.BatchV1().Jobs(n.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		done := map[string]bool{}
		for _, j := range list.Items {
			for _, c := range j.Status.Conditions {
				done[j.Name+" "+string(c.Type)] = c.Status == corev1.ConditionTrue
			}
		}
		return done["good Complete"] && done["bad Failed"], nil
	})
}
