package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/version"
)

const (
	renewEvery   = 10 * time.Second
	leaseSeconds = 40
)

// node is a simulated one: it is there, ready, and renews its lease.
type node struct {
	object *corev1.Node
}

func nodeName(i int) string    { return fmt.Sprintf("node-%d", i) }
func nodeAddress(i int) string { return fmt.Sprintf("10.0.0.%d", i+1) }

func newNode(i int, o options) *node {
	name := nodeName(i)
	has := corev1.ResourceList{
		corev1.ResourceCPU: o.cpu, corev1.ResourceMemory: o.memory,
		corev1.ResourcePods:             *resource.NewQuantity(int64(o.pods), resource.DecimalSI),
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
	}
	labels := map[string]string{corev1.LabelTopologyRegion: "testkube", corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", i%3)}
	labels[corev1.LabelHostname], labels[corev1.LabelOSStable], labels[corev1.LabelArchStable] = name, "linux", "amd64"
	return &node{object: &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Status: corev1.NodeStatus{
			Capacity: has, Allocatable: has,
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeAddress(i)}, {Type: corev1.NodeHostName, Address: name}},
			NodeInfo:   corev1.NodeSystemInfo{KubeletVersion: version.Get().GitVersion, OperatingSystem: "linux", Architecture: "amd64"},
			Conditions: conditions(),
		},
	}}
}

func conditions() []corev1.NodeCondition {
	now := metav1.Now()
	list := []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "it is simulated"}}
	for _, t := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		list = append(list, corev1.NodeCondition{Type: t, Status: corev1.ConditionFalse, Reason: "Kubelet"})
	}
	for i := range list {
		list[i].LastHeartbeatTime, list[i].LastTransitionTime = now, now
	}
	return list
}

// run makes the node and then keeps it ready.
func (n *node) run(ctx context.Context, client kubernetes.Interface) {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		// The namespace of the leases appears a moment after the start.
		_ = keepTrying(ctx, func() error { return n.renew(ctx, client) })
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (n *node) renew(ctx context.Context, client kubernetes.Interface) error {
	now, seconds := metav1.NowMicro(), int32(leaseSeconds)
	spec := coordinationv1.LeaseSpec{HolderIdentity: &n.object.Name, LeaseDurationSeconds: &seconds, RenewTime: &now}
	leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	lease, err := leases.Get(ctx, n.object.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		lease.Spec = spec
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	case apierrors.IsNotFound(err):
		_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: n.object.Name}, Spec: spec}, metav1.CreateOptions{})
	}
	if err != nil {
		return err
	}
	return n.ready(ctx, client)
}

// ready makes the node, or makes it ready again if somebody judged otherwise while this process was stopped.
func (n *node) ready(ctx context.Context, client kubernetes.Interface) error {
	nodes := client.CoreV1().Nodes()
	is, err := nodes.Get(ctx, n.object.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = nodes.Create(ctx, n.object, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	for _, c := range is.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	slog.Info("a node is made ready again", "node", n.object.Name)
	is.Status.Conditions = conditions()
	_, err = nodes.UpdateStatus(ctx, is, metav1.UpdateOptions{})
	return err
}
