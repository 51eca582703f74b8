package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
)

// kubelet is that of all nodes: it says of pods that have a node what a kubelet would, had it run their containers.
//
//	scheduled ──▶ Running, ready                    containers that are restarted for ever
//	          ──▶ Succeeded                         others, as those of a Job: they have nothing to do
//	          ──▶ whatever the annotations say      until they say something else
//	deleted   ──▶ gone at once, whatever its grace  unless the annotations keep it
type kubelet struct {
	client kubernetes.Interface
	pods   corelisters.PodLister
	events record.EventRecorder
	last   atomic.Uint32 // address given to a pod, counted from the first
}

// firstAddress is the first of all that pods get: none has to be given twice.
var firstAddress = netip.MustParseAddr("10.128.0.1")

// countAddresses begins behind those that pods have: this process may have run before.
func (k *kubelet) countAddresses() error {
	pods, err := k.pods.List(labels.Everything())
	if err != nil {
		return err
	}
	first := binary.BigEndian.Uint32(firstAddress.AsSlice())
	for _, p := range pods {
		if a, err := netip.ParseAddr(p.Status.PodIP); err == nil && a.Is4() && firstAddress.Compare(a) <= 0 {
			k.last.Store(max(k.last.Load(), binary.BigEndian.Uint32(a.AsSlice())-first+1))
		}
	}
	return nil
}

func (k *kubelet) address() string {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(firstAddress.AsSlice())+k.last.Add(1)-1)
	return netip.AddrFrom4(b).String()
}

func (k *kubelet) sync(ctx context.Context, name cache.ObjectName) error {
	pod, err := k.pods.Pods(name.Namespace).Get(name.Name)
	if err != nil {
		return err
	}
	if pod.Spec.NodeName == "" {
		return nil
	}
	if pod.DeletionTimestamp != nil {
		if _, keep := pod.Annotations[keepAnnotation]; keep {
			return nil
		}
		return k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &pod.UID},
		})
	}
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil // for ever
	}
	return k.report(ctx, pod)
}

// report writes the pod's status, if there is anything to say.
func (k *kubelet) report(ctx context.Context, pod *corev1.Pod) error {
	var number int
	if _, err := fmt.Sscanf(pod.Spec.NodeName, "node-%d", &number); err != nil {
		return nil // somebody made a node by hand: it has no kubelet
	}
	changed := pod.DeepCopy()
	changed.Status = statusOf(pod, nodeAddress(number), k.address)
	if equality.Semantic.DeepEqual(pod.Status, changed.Status) {
		return nil
	}
	if _, err := k.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{}); err != nil {
		return err
	}
	for _, c := range pod.Spec.Containers {
		f := fateOf(pod, c)
		switch f.reason {
		case "":
		case reasonNotReady:
			k.events.Event(pod, corev1.EventTypeWarning, "Unhealthy", "Readiness probe failed: "+f.message)
		case reasonCrash, reasonMemory:
			k.events.Eventf(pod, corev1.EventTypeWarning, "BackOff", "Back-off restarting failed container %s in pod %s_%s(%s)",
				c.Name, pod.Name, pod.Namespace, pod.UID)
		case reasonPull, reasonPullNow:
			k.events.Eventf(pod, corev1.EventTypeWarning, "Failed", "Failed to pull image %q: %s", c.Image, f.message)
		default:
			k.events.Event(pod, corev1.EventTypeWarning, "Failed", "Error: "+f.message)
		}
	}
	return nil
}
