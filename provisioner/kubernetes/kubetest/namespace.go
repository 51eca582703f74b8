package kubetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	look  = 5 * time.Millisecond // how often something is asked for until it is so
	bound = 2 * time.Minute      // and how long
)

// Namespace is a namespace of one test.
type Namespace struct {
	Name   string
	Config *rest.Config // an administrator's
	Client *kubernetes.Clientset
	// Cluster is where it is. Unless it is the test's own one, others use it too.
	Cluster *Cluster
}

// New makes a namespace on the control plane that the tests of this process share. It is deleted when the test ends, which is not waited
// for: that takes five seconds at least.
func New(t testing.TB) *Namespace {
	t.Helper()
	leaveOut(t)
	c, err := common()
	if err != nil {
		t.Fatalf("kubetest: %v", err)
	}
	return c.Namespace(t)
}

// Namespace makes one more namespace.
func (c *Cluster) Namespace(t testing.TB) *Namespace {
	t.Helper()
	n := &Namespace{Name: c.name(t), Config: c.Config, Client: c.Client, Cluster: c}
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
	_, err := c.Client.CoreV1().Namespaces().Create(t.Context(), object, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeoutCause(context.Background(), bound, errors.New("the control plane does not answer"))
		defer cancel()
		if err := n.delete(ctx); err != nil {
			t.Errorf("kubetest: %v", err)
		}
	})
	// Without it no pod is let in, and what makes pods waits longer and longer before it tries again.
	until(t, "the namespace has its service account", func(ctx context.Context) (bool, error) {
		_, err := c.Client.CoreV1().ServiceAccounts(n.Name).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	return n
}

// delete has the namespace deleted, if the control plane runs.
func (n *Namespace) delete(ctx context.Context) error {
	if !n.Cluster.plane.Running() {
		return nil
	}
	err := n.Client.CoreV1().Namespaces().Delete(ctx, n.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete namespace %s: %w", n.Name, err)
	}
	return nil
}

// name is that of the next namespace, after the test.
func (c *Cluster) name(t testing.TB) string {
	slug := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		default:
			return '-'
		}
	}, t.Name())
	return fmt.Sprintf("%s-%d", strings.Trim(slug[:min(len(slug), 40)], "-"), c.made.Add(1))
}

// until waits for something to be so.
func until(t testing.TB, what string, so func(context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), look, bound, true, so); err != nil {
		t.Fatalf("kubetest: wait until %s: %v", what, err)
	}
}
