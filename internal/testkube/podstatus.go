package main

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons that stand for more than a container that waits with that reason.
const (
	reasonNotReady = "NotReady"         // runs, but is not ready
	reasonCrash    = "CrashLoopBackOff" // has exited with 1 again and again
	reasonMemory   = "OOMKilled"        // has been killed for its memory again and again
	reasonError    = "Error"            // has exited with 1; for good, where nothing restarts it
	reasonPull     = "ImagePullBackOff"
	reasonPullNow  = "ErrImagePull"
)

// restarted is how often a container that fails again and again has been started.
const restarted = 3

// fate is what becomes of a container; no reason is a good one.
type fate struct{ reason, message string }

func fateOf(pod *corev1.Pod, c corev1.Container) fate {
	f := fate{reason: pod.Annotations[failAnnotation], message: pod.Annotations[messageAnnotation]}
	if f.reason == "" && strings.HasPrefix(c.Image, missingImages) {
		f.reason = reasonPull
	}
	if f.message != "" || f.reason == "" {
		return f
	}
	notFound := fmt.Sprintf("failed to resolve reference %q: not found", c.Image)
	switch f.reason {
	case reasonPull:
		f.message = fmt.Sprintf("Back-off pulling image %q: ErrImagePull: %s", c.Image, notFound)
	case reasonPullNow:
		f.message = notFound
	case reasonCrash, reasonMemory:
		f.message = fmt.Sprintf("back-off 40s restarting failed container=%s pod=%s_%s(%s)", c.Name, pod.Name, pod.Namespace, pod.UID)
	case reasonNotReady:
		f.message = "HTTP probe failed with statuscode: 503"
	default:
		f.message = "simulated"
	}
	return f
}

// statusOf is the status that a pod with a node should have. What has not changed keeps its times, so it is the same when nothing did.
func statusOf(pod *corev1.Pod, host string, newAddress func() string) corev1.PodStatus {
	now := metav1.Now()
	s := *pod.Status.DeepCopy()
	s.ObservedGeneration = pod.Generation
	if s.StartTime == nil {
		s.StartTime = &now
	}
	s.HostIP, s.HostIPs = host, []corev1.HostIP{{IP: host}}
	switch {
	case pod.Spec.HostNetwork:
		s.PodIP = host
	case s.PodIP == "":
		s.PodIP = newAddress()
	}
	s.PodIPs = []corev1.PodIP{{IP: s.PodIP}}

	w := statuses{pod: pod, now: now}
	s.InitContainerStatuses = w.initial(pod.Status.InitContainerStatuses)
	s.ContainerStatuses = w.main(pod.Status.ContainerStatuses)
	s.Phase = w.phase()

	unready := corev1.PodCondition{Status: corev1.ConditionTrue}
	if len(w.unready) > 0 {
		unready = corev1.PodCondition{
			Status: corev1.ConditionFalse, Reason: "ContainersNotReady",
			Message: fmt.Sprintf("containers with unready status: %v", w.unready),
		}
	}
	if s.Phase == corev1.PodSucceeded {
		unready = corev1.PodCondition{Status: corev1.ConditionFalse, Reason: "PodCompleted"}
	}
	ready := unready
	for _, gate := range pod.Spec.ReadinessGates {
		if ready.Status == corev1.ConditionTrue && !isTrue(s.Conditions, gate.ConditionType) {
			ready = corev1.PodCondition{
				Status: corev1.ConditionFalse, Reason: "ReadinessGatesNotReady",
				Message: fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist or is not true", gate.ConditionType),
			}
		}
	}
	yes := corev1.PodCondition{Status: corev1.ConditionTrue}
	for _, c := range []struct {
		name corev1.PodConditionType
		is   corev1.PodCondition
	}{{corev1.PodReadyToStartContainers, yes}, {corev1.PodInitialized, yes}, {corev1.ContainersReady, unready}, {corev1.PodReady, ready}} {
		c.is.Type, c.is.ObservedGeneration = c.name, pod.Generation
		s.Conditions = withCondition(s.Conditions, c.is, now)
	}
	return s
}

func isTrue(list []corev1.PodCondition, t corev1.PodConditionType) bool {
	for _, c := range list {
		if c.Type == t {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func withCondition(list []corev1.PodCondition, c corev1.PodCondition, now metav1.Time) []corev1.PodCondition {
	c.LastTransitionTime = now
	for i, old := range list {
		if old.Type == c.Type {
			if old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
			list[i] = c
			return list
		}
	}
	return append(list, c)
}

// statuses works out those of a pod's containers.
type statuses struct {
	pod     *corev1.Pod
	now     metav1.Time
	unready []string
	started bool // one at least
	running bool // one at least, or about to be again
	failed  bool // one at least, for good
}

func (w *statuses) phase() corev1.PodPhase {
	switch {
	case !w.started:
		return corev1.PodPending
	case w.running:
		return corev1.PodRunning
	case w.failed:
		return corev1.PodFailed
	default:
		return corev1.PodSucceeded
	}
}

// initial are those of the containers that come first: they have done their work, but for those that stay beside the others.
func (w *statuses) initial(old []corev1.ContainerStatus) []corev1.ContainerStatus {
	var list []corev1.ContainerStatus
	for i, c := range w.pod.Spec.InitContainers {
		s := w.begin(c, old, i)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			s.Ready, s.Started, s.State = true, new(true), w.runs(s.State)
		} else {
			s.Ready, s.Started, s.State = true, new(false), w.exited(s.State, "Completed", 0)
		}
		list = append(list, s)
	}
	return list
}

func (w *statuses) main(old []corev1.ContainerStatus) []corev1.ContainerStatus {
	var list []corev1.ContainerStatus
	for i, c := range w.pod.Spec.Containers {
		s := w.begin(c, old, i)
		w.set(&s, fateOf(w.pod, c))
		if !s.Ready {
			w.unready = append(w.unready, c.Name)
		}
		list = append(list, s)
	}
	return list
}

func (w *statuses) begin(c corev1.Container, old []corev1.ContainerStatus, i int) corev1.ContainerStatus {
	var s corev1.ContainerStatus
	if i < len(old) && old[i].Name == c.Name {
		s = old[i]
	}
	s.Name, s.Image, s.ImageID = c.Name, c.Image, c.Image
	s.ContainerID = "testkube://" + string(w.pod.UID) + "/" + c.Name
	return s
}

// set is what has become of a container.
func (w *statuses) set(s *corev1.ContainerStatus, f fate) {
	always := w.pod.Spec.RestartPolicy == corev1.RestartPolicyAlways
	again := w.pod.Spec.RestartPolicy != corev1.RestartPolicyNever
	s.Ready, s.Started = false, new(false)
	switch f.reason {
	case "":
		w.started = true
		if !always {
			s.State = w.exited(s.State, "Completed", 0)
			return
		}
		w.running = true
		s.Ready, s.Started, s.State = true, new(true), w.runs(s.State)
	case reasonNotReady:
		w.started, w.running = true, true
		s.Started, s.State = new(true), w.runs(s.State)
	case reasonCrash, reasonMemory, reasonError:
		w.started = true
		why, code := reasonError, int32(1)
		if f.reason == reasonMemory {
			why, code = reasonMemory, 137
		}
		if !again {
			w.failed = true
			s.State = w.exited(s.State, why, code)
			return
		}
		w.running = true
		s.LastTerminationState = w.exited(s.LastTerminationState, why, code)
		s.RestartCount = max(s.RestartCount, restarted)
		s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reasonCrash, Message: f.message}}
	default:
		s.ContainerID, s.ImageID = "", ""
		s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: f.reason, Message: f.message}}
	}
}

func (w *statuses) runs(old corev1.ContainerState) corev1.ContainerState {
	if old.Running != nil {
		return old
	}
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: w.now}}
}

func (w *statuses) exited(old corev1.ContainerState, reason string, code int32) corev1.ContainerState {
	if old.Terminated != nil && old.Terminated.Reason == reason {
		return old
	}
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code, StartedAt: w.now, FinishedAt: w.now}}
}
