package kubetest

import (
	"context"
	"fmt"
	"os"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applyapps "k8s.io/client-go/applyconfigurations/apps/v1"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	applymeta "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	if os.Getenv(parentEnv) != "" {
		beParent()
		return
	}
	Main(m)
}

// manager is who applies in these tests.
var manager = metav1.ApplyOptions{FieldManager: "test"}

// deployment is one of a single pod, with annotations given as key, value, key, value.
func deployment(n *Namespace, name string, annotations ...string) *applyapps.DeploymentApplyConfiguration {
	labels := map[string]string{"app": name}
	template := applycore.PodTemplateSpec().WithLabels(labels).WithSpec(applycore.PodSpec().WithContainers(
		applycore.Container().WithName("main").WithImage("example.test/main:1")))
	for i := 0; i < len(annotations); i += 2 {
		template.WithAnnotations(map[string]string{annotations[i]: annotations[i+1]})
	}
	return applyapps.Deployment(name, n.Name).WithLabels(labels).WithSpec(applyapps.DeploymentSpec().WithReplicas(1).
		WithSelector(applymeta.LabelSelector().WithMatchLabels(labels)).WithTemplate(template))
}

func apply(t *testing.T, n *Namespace, d *applyapps.DeploymentApplyConfiguration) *appsv1.Deployment {
	t.Helper()
	is, err := n.Client.AppsV1().Deployments(n.Name).Apply(t.Context(), d, manager)
	require.NoError(t, err)
	return is
}

func isAvailable(d *appsv1.Deployment) bool {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentAvailable {
			return c.Status == corev1.ConditionTrue && d.Status.ObservedGeneration >= d.Generation
		}
	}
	return false
}

func awaitAvailable(t *testing.T, n *Namespace, name string) {
	t.Helper()
	until(t, name+" is available", func(ctx context.Context) (bool, error) {
		d, err := n.Client.AppsV1().Deployments(n.Name).Get(ctx, name, metav1.GetOptions{})
		return err == nil && isAvailable(d), err
	})
}

// awaitPod waits for a pod of a deployment that is so.
func awaitPod(t *testing.T, n *Namespace, app, what string, so func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var found *corev1.Pod
	until(t, fmt.Sprintf("a pod of %s %s", app, what), func(ctx context.Context) (bool, error) {
		list, err := n.Client.CoreV1().Pods(n.Name).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
		if err != nil {
			return false, err
		}
		for i := range list.Items {
			if so(&list.Items[i]) {
				found = &list.Items[i]
				return true, nil
			}
		}
		return false, nil
	})
	return found
}

// awaitEvent waits for an event of that reason in the namespace, and returns its message.
func awaitEvent(t *testing.T, n *Namespace, reason string) string {
	t.Helper()
	var message string
	until(t, "there is an event "+reason, func(ctx context.Context) (bool, error) {
		list, err := n.Client.CoreV1().Events(n.Name).List(ctx, metav1.ListOptions{FieldSelector: "reason=" + reason})
		if err != nil || len(list.Items) == 0 {
			return false, err
		}
		message = list.Items[0].Message
		return true, nil
	})
	return message
}
