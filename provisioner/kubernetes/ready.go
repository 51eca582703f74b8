package kubernetes

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A standing is how an object stands by the meaning of its kind.
type standing struct {
	ready  bool
	serves bool   // not as it was asked for, but as it was before
	broken string // it has failed for good
	text   string // what it waits for
}

// workloads are the kinds that pods are made for.
var workloads = map[string]bool{
	"Deployment": true, "StatefulSet": true, "DaemonSet": true, "ReplicaSet": true, "ReplicationController": true, "Job": true, "Pod": true,
}

// standingOf says how an object stands.
func standingOf(o *unstructured.Unstructured) standing {
	if isLeaving(o) {
		return standing{text: heldBy(o)}
	}
	known, _ := isKnown(o.GroupVersionKind())
	if !known { // somebody's own kind, whatever it is called
		return customStands(o)
	}
	switch o.GetKind() {
	case "Deployment":
		return deploymentStands(o)
	case "StatefulSet", "ReplicaSet", "ReplicationController", "DaemonSet":
		return setStands(o)
	case "Job":
		return jobStands(o)
	case "Pod":
		return conditionStands(o, "Ready")
	case "PersistentVolumeClaim":
		if phase, _, _ := unstructured.NestedString(o.Object, "status", "phase"); phase == "Lost" {
			return standing{broken: titleOf(o) + " has lost its volume"}
		}
		return standing{ready: true} // one that is not bound may wait for the first pod that needs it, and what needs it says so
	}
	return standing{ready: true}
}

// customStands is by the conditions that most kinds have: Ready, or else Available, or else none.
func customStands(o *unstructured.Unstructured) standing {
	for _, name := range []string{"Ready", "Available"} {
		if condition(o, name) != nil {
			return conditionStands(o, name)
		}
	}
	if !observed(o) {
		return standing{text: titleOf(o) + " is not looked at yet"}
	}
	return standing{ready: true}
}

func deploymentStands(o *unstructured.Unstructured) standing {
	available := condition(o, "Available")
	want := number(o, 1, "spec", "replicas")
	updated, all := number(o, 0, "status", "updatedReplicas"), number(o, 0, "status", "replicas")
	has := number(o, 0, "status", "availableReplicas")
	s := standing{serves: available != nil && available.status == "True" && has > 0}
	switch {
	case !observed(o):
		s.text = titleOf(o) + " is not looked at yet"
	case updated < want:
		s.text = fmt.Sprintf("%s: %d of %d pods are as asked for", titleOf(o), updated, want)
	case all > updated:
		s.text = fmt.Sprintf("%s: %d earlier pods are still there", titleOf(o), all-updated)
	case available == nil || available.status != "True" || has < want && want == 1:
		s.text = fmt.Sprintf("%s: %d of %d pods are available", titleOf(o), has, want)
	default:
		s.ready = true
	}
	return s
}

func setStands(o *unstructured.Unstructured) standing {
	want, has := number(o, 1, "spec", "replicas"), number(o, 0, "status", "readyReplicas")
	updated := want
	if o.GetKind() == "DaemonSet" {
		want, has = number(o, 0, "status", "desiredNumberScheduled"), number(o, 0, "status", "numberReady")
		updated = number(o, 0, "status", "updatedNumberScheduled")
	}
	if strategy, _, _ := unstructured.NestedString(o.Object, "spec", "updateStrategy", "type"); o.GetKind() == "StatefulSet" && strategy != "OnDelete" {
		current, _, _ := unstructured.NestedString(o.Object, "status", "currentRevision")
		next, _, _ := unstructured.NestedString(o.Object, "status", "updateRevision")
		if current != next {
			updated = number(o, 0, "status", "updatedReplicas")
		}
	}
	s := standing{serves: has > 0 && has >= want}
	switch {
	case !observed(o):
		s.text = titleOf(o) + " is not looked at yet"
	case updated < want:
		s.text = fmt.Sprintf("%s: %d of %d pods are as asked for", titleOf(o), updated, want)
	case has < want:
		s.text = fmt.Sprintf("%s: %d of %d pods are ready", titleOf(o), has, want)
	default:
		s.ready = true
	}
	return s
}

// hasAllPods reports whether a workload has as many pods as it is to have.
func hasAllPods(o *unstructured.Unstructured) bool {
	if o.GetKind() == "DaemonSet" {
		return observed(o) && number(o, 0, "status", "currentNumberScheduled") >= number(o, 0, "status", "desiredNumberScheduled")
	}
	return observed(o) && number(o, 0, "status", "replicas") >= number(o, 1, "spec", "replicas")
}

func jobStands(o *unstructured.Unstructured) standing {
	if c := condition(o, "Failed"); c != nil && c.status == "True" {
		return standing{broken: titleOf(o) + " has failed: " + c.message}
	}
	if c := condition(o, "Complete"); c != nil && c.status == "True" {
		return standing{ready: true}
	}
	return standing{text: titleOf(o) + " has not ended yet"}
}

func conditionStands(o *unstructured.Unstructured, name string) standing {
	c := condition(o, name)
	switch {
	case !observed(o):
		return standing{text: titleOf(o) + " is not looked at yet"}
	case c != nil && c.status == "True":
		return standing{ready: true}
	case c == nil || c.message == "":
		return standing{text: titleOf(o) + " is not " + name + " yet"}
	}
	return standing{text: titleOf(o) + ": " + c.message}
}

// observed reports whether the status is about what is asked for now.
func observed(o *unstructured.Unstructured) bool {
	seen, told, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	if !told {
		return o.GroupVersionKind().Group != "apps" || !workloads[o.GetKind()]
	}
	return seen >= o.GetGeneration()
}

type cond struct{ status, reason, message string }

// condition is a condition of the status of an object; nil if it has none of the name.
func condition(o *unstructured.Unstructured, name string) *cond {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, one := range all {
		c, ok := one.(map[string]any)
		if !ok || c["type"] != name {
			continue
		}
		text := func(key string) string {
			s, _ := c[key].(string)
			return s
		}
		return &cond{text("status"), text("reason"), text("message")}
	}
	return nil
}

func number(o *unstructured.Unstructured, otherwise int64, path ...string) int64 {
	v, there, err := unstructured.NestedInt64(o.Object, path...)
	if !there || err != nil {
		return otherwise
	}
	return v
}
