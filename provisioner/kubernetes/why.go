package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"berth/internal/defaults"
	"berth/provisioner"
)

// A cause is why pods do not run.
type cause struct {
	reason, message string
	fault           bool      // something is wrong
	passes          time.Time // until when it is expected to pass by itself
	err             error     // a class that the cause is of
}

// standing says how a resource stands, all of whose objects are as they were asked for.
func (k *Kubernetes) standing(ctx context.Context, r *provisioner.Resource, n *notes, wishes []wish, l *live) (provisioner.Observation, error) {
	var unready []*unstructured.Unstructured
	var first standing
	for _, w := range wishes {
		o := l.objects[w.key]
		if o == nil {
			continue // the anchor
		}
		s := standingOf(o)
		if s.ready {
			continue
		}
		if len(unready) == 0 {
			first = s
		}
		if s.broken != "" {
			return provisioner.Observation{Phase: provisioner.PhasePending, Reason: reasonPods, Message: line(s.broken)}, nil
		}
		unready = append(unready, o)
	}
	if len(unready) == 0 {
		n.Quotas = ""
		return provisioner.Observation{Phase: provisioner.PhaseReady}, nil
	}
	var c cause
	if !k.isWithoutFault(*r) {
		var err error
		if c, err = k.why(ctx, *r, unready, l.volumes()); err != nil {
			return provisioner.Observation{Phase: provisioner.PhaseUnknown}, err
		}
	}
	still := serves(l)
	o := provisioner.Observation{Phase: provisioner.PhasePending, Reason: cmp.Or(c.reason, reasonPods), Message: line(cmp.Or(c.message, first.text))}
	if still && c.reason == "" {
		o.Reason = reasonRolling
	}
	if errors.Is(c.err, provisioner.ErrNoCapacity) {
		if err := k.nudge(ctx, n, unready); err != nil {
			return o, err
		}
	}
	switch {
	case still && c.fault && c.err == nil:
		// What was there before still serves: an update that can not be completed, and no outage.
		o.Phase = provisioner.PhaseReady
		return o, says(nil, o.Message)
	case still && c.fault:
		o.Phase = provisioner.PhaseReady
	}
	return o, c.err
}

// serves reports whether every workload still runs as it did before.
func serves(l *live) bool {
	found := false
	for _, o := range l.objects {
		if !workloads[o.GetKind()] || o.GetKind() == "Job" {
			continue
		}
		found = true
		if s := standingOf(o); !s.ready && !s.serves || isOrphan(o, l) {
			return false
		}
	}
	return found
}

// why finds the cause for which workloads are not ready: on their pods, on themselves, in their events and those of the disks that they
// wait for.
func (k *Kubernetes) why(ctx context.Context, r provisioner.Resource, unready, disks []*unstructured.Unstructured) (cause, error) {
	var best cause
	for _, o := range unready {
		if c := condition(o, "ReplicaFailure"); c != nil && c.status == "True" {
			return refusedPods(o, c.message), nil
		}
	}
	listed, err := k.cluster.list(ctx, kindPod, k.selector(r))
	if isDenied(err) {
		return cause{message: "why is unknown: " + err.Error()}, nil
	}
	if err != nil {
		return best, err
	}
	pods := make([]*unstructured.Unstructured, len(listed))
	for i := range listed {
		pods[i] = &listed[i]
	}
	var of *unstructured.Unstructured
	for _, pod := range current(pods, unready) {
		if c := podCause(pod); c.reason != "" && (best.reason == "" || c.fault && !best.fault) {
			best, of = c, pod
		}
	}
	if best.reason == corev1.PodReasonUnschedulable && best.passes.IsZero() {
		said, err := k.scaling(ctx, of)
		best.message += said
		return best, err
	}
	asks := unready
	if !best.passes.IsZero() { // they wait for a disk
		asks = slices.DeleteFunc(slices.Clone(disks), isBound)
	} else if best.fault {
		return best, nil
	}
	for _, o := range asks {
		if len(pods) > 0 && (o.GetKind() == "Deployment" || workloads[o.GetKind()] && hasAllPods(o)) {
			continue // it says by itself what its pods do not, or what was said is over
		}
		c, err := k.eventCause(ctx, o)
		if err != nil {
			return best, err
		}
		if c.fault {
			return c, nil
		}
	}
	return best, nil
}

// scalings are the reasons of the events in which an autoscaler says what it makes of a pod that no node has room for, and our words for
// them. They are no warnings.
var scalings = map[string]string{"TriggeredScaleUp": "scale-up triggered", "NotTriggerScaleUp": "no scale-up"}

// scaling is what an autoscaler said last of a pod that no node has room for.
func (k *Kubernetes) scaling(ctx context.Context, pod *unstructured.Unstructured) (said string, err error) {
	events, err := k.events(ctx, "type=Normal", pod)
	for _, e := range events {
		reason, _, _ := unstructured.NestedString(e.Object, "reason")
		if words := scalings[reason]; words != "" {
			message, _, _ := unstructured.NestedString(e.Object, "message")
			_, what, long := strings.Cut(message, ": ") // "pod triggered scale-up: ..."
			if !long {
				what = message
			}
			said = "; " + words + ": " + what
		}
	}
	return said, err
}

// current are the pods that run the images that are asked for now: those of an earlier version are about to go. If none does, somebody
// changes images when pods are made, and it is all of them.
func current(pods, workloads []*unstructured.Unstructured) []*unstructured.Unstructured {
	images := map[string]bool{}
	for _, o := range workloads {
		for _, c := range containers(o.Object, "spec.template.spec") {
			images[c] = true
		}
	}
	some := slices.DeleteFunc(slices.Clone(pods), func(o *unstructured.Unstructured) bool {
		return slices.ContainsFunc(containers(o.Object, "spec"), func(c string) bool { return !images[c] })
	})
	if len(some) == 0 {
		return pods
	}
	return some
}

// containers are the names and images of the containers of a pod.
func containers(tree map[string]any, path string) (all []string) {
	spec := at(tree, path)
	for _, list := range []string{"initContainers", "containers"} {
		entries, _ := spec[list].([]any)
		for _, e := range entries {
			if c, ok := e.(map[string]any); ok {
				all = append(all, fmt.Sprint(c["name"], " ", c["image"]))
			}
		}
	}
	return all
}

// events are those of a type that are about an object, the last one last. There are none where they may not be read: what can be known is
// known without.
func (k *Kubernetes) events(ctx context.Context, which string, about *unstructured.Unstructured) ([]unstructured.Unstructured, error) {
	in, err := k.cluster.resource(ctx, kindEvent)
	if err != nil {
		return nil, err
	}
	events, err := k.cluster.listOf(ctx, in, kindEvent.Kind, metav1.ListOptions{FieldSelector: which + ",involvedObject.uid=" + string(about.GetUID())})
	if isDenied(err) {
		return nil, nil
	}
	slices.SortFunc(events, func(a, b unstructured.Unstructured) int { return cmp.Compare(lastSeen(&a), lastSeen(&b)) })
	return events, err
}

// eventCause is what the events of an object say went wrong last.
func (k *Kubernetes) eventCause(ctx context.Context, o *unstructured.Unstructured) (cause, error) {
	events, err := k.events(ctx, "type=Warning", o)
	if err != nil {
		return cause{}, err
	}
	for _, e := range slices.Backward(events) {
		reason, _, _ := unstructured.NestedString(e.Object, "reason")
		message, _, _ := unstructured.NestedString(e.Object, "message")
		if reason == "FailedCreate" {
			return refusedPods(o, message), nil
		}
		if wordy.MatchString(reason) {
			return cause{reason: reason, message: titleOf(o) + ": " + message, fault: true}, nil
		}
	}
	return cause{}, nil
}

func lastSeen(e *unstructured.Unstructured) string {
	for _, path := range [][]string{{"series", "lastObservedTime"}, {"lastTimestamp"}, {"eventTime"}} {
		if t, _, _ := unstructured.NestedString(e.Object, path...); t != "" {
			return t
		}
	}
	return e.GetCreationTimestamp().UTC().Format("2006-01-02T15:04:05Z")
}

// refusedPods takes apart why the cluster lets in no pod of a workload.
func refusedPods(o *unstructured.Unstructured, message string) cause {
	c := cause{reason: "FailedCreate", message: titleOf(o) + ": " + message, fault: true}
	switch {
	case strings.Contains(message, exceededQuota):
		c.reason, c.err = reasonQuota, says(provisioner.ErrNoCapacity, c.message)
	case strings.Contains(message, unmetQuota):
		c.reason = "QuotaUnmet"
	case strings.Contains(message, "violates PodSecurity"):
		c.reason = "PodSecurity"
	}
	return c
}

// wordy is what a reason may be.
var wordy = regexp.MustCompile(`\A[A-Z][A-Za-z0-9]*\z`)

// passing are the reasons with which a container waits while all is well.
var passing = map[string]bool{"ContainerCreating": true, "PodInitializing": true}

// unboundDisk is what a scheduler says of a pod that was made while its disk was.
const unboundDisk = "unbound immediate PersistentVolumeClaims"

// podCause is why a pod is not ready.
func podCause(o *unstructured.Unstructured) cause {
	var pod corev1.Pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &pod); err != nil || pod.DeletionTimestamp != nil {
		return cause{}
	}
	say := func(reason, format string, args ...any) cause {
		if !wordy.MatchString(reason) {
			reason = "Failed"
		}
		return cause{reason: reason, message: titleOf(o) + ": " + fmt.Sprintf(format, args...), fault: true}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			why := say(cmp.Or(c.Reason, corev1.PodReasonUnschedulable), "%s", c.Message)
			if strings.Contains(c.Message, unboundDisk) {
				why.passes = c.LastTransitionTime.Add(defaults.KubernetesBinding)
			}
			return why
		}
	}
	if pod.Status.Phase == corev1.PodFailed {
		return say(cmp.Or(pod.Status.Reason, "Failed"), "%s", cmp.Or(pod.Status.Message, "it has failed"))
	}
	images, logs := map[string]string{}, map[string]bool{}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		images[c.Name], logs[c.Name] = c.Image, c.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		switch last := s.LastTerminationState.Terminated; {
		case s.State.Waiting != nil && !passing[s.State.Waiting.Reason]:
			reason, why := s.State.Waiting.Reason, s.State.Waiting.Message
			if last != nil && reason == "CrashLoopBackOff" {
				why = fmt.Sprintf("exited with %d (%s) after %d restarts: %s", last.ExitCode, last.Reason, s.RestartCount, why)
				if last.Reason == "OOMKilled" {
					reason = last.Reason
				}
			}
			return say(reason, "container %s, image %s: %s", s.Name, images[s.Name], why)
		case s.State.Terminated != nil && s.State.Terminated.ExitCode != 0:
			last := s.State.Terminated.Message
			if logs[s.Name] {
				last = "see its log" // which may hold anything
			}
			return say(s.State.Terminated.Reason, "container %s, image %s: exited with %d: %s", s.Name, images[s.Name], s.State.Terminated.ExitCode, last)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse {
			return cause{reason: reasonPods, message: titleOf(o) + ": " + cmp.Or(c.Message, "it is not ready")}
		}
	}
	return cause{}
}

// annotationNudge is changed to have a workload tried again at once: after a quota was raised its controller waits for minutes.
const annotationNudge = "berth.dev/nudged"

// nudge has the workloads tried again for which there is no room, if quotas are other than when that was seen.
func (k *Kubernetes) nudge(ctx context.Context, n *notes, unready []*unstructured.Unstructured) error {
	quotas, err := k.cluster.list(ctx, kindQuota, "")
	if err != nil && !isDenied(err) {
		return err
	}
	now := quotaDigest(quotas, err)
	if now == n.Quotas {
		return nil
	}
	known := n.Quotas != ""
	n.Quotas = now
	if !known {
		return nil
	}
	for _, o := range unready {
		if o.GetKind() != "Deployment" && o.GetKind() != "StatefulSet" {
			continue
		}
		patch := map[string]any{"metadata": map[string]any{"uid": string(o.GetUID()), "annotations": map[string]any{annotationNudge: now}}}
		if _, err := k.cluster.merge(ctx, o, patch); err != nil && !isConflict(err) && !isGone(err) {
			return err
		}
	}
	return nil
}
