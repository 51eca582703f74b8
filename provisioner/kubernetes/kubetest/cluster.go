package kubetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"berth/internal/kuberun"
)

// Options say how a control plane is made. Zero is what the shared one has.
type Options = kuberun.Options

// Cluster is a control plane. What its methods do everybody sees who uses it.
type Cluster struct {
	// Config is an administrator's, without limits of the client's own. It stays good when the control plane is started again.
	Config *rest.Config
	Client *kubernetes.Clientset
	// Kubeconfig is a file that says the same.
	Kubeconfig string

	plane *kuberun.Plane
	made  atomic.Int64 // namespaces
}

// leaveOut leaves a test out where BERTH_TESTKUBE is none: to build the control plane takes minutes where it is not in the cache.
func leaveOut(t testing.TB) {
	t.Helper()
	if kuberun.LeftOut() {
		t.Skip("needs the control plane, and BERTH_TESTKUBE is none") //nolint:forbidigo // make test-kube runs it
	}
}

// Private starts a control plane of the test's own, which it may stop, kill and hang. It takes seconds, and 400 MB of memory.
func Private(t testing.TB, o Options) *Cluster {
	t.Helper()
	leaveOut(t)
	c, err := open(o)
	if err != nil {
		t.Fatalf("kubetest: %v", err)
	}
	t.Cleanup(func() {
		if err := c.plane.Close(); err != nil {
			t.Errorf("kubetest: %v", err)
		}
	})
	return c
}

func open(o Options) (c *Cluster, err error) {
	plane, err := kuberun.Open(context.Background(), o, logf) // whoever asks first starts it for all
	if err != nil {
		return nil, err
	}
	c = &Cluster{plane: plane, Kubeconfig: plane.Kubeconfig()}
	defer func() {
		if err != nil {
			c, err = nil, errors.Join(err, plane.Close())
		}
	}()
	if c.Config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
		return c, err
	}
	c.Config.QPS = -1
	c.Client, err = kubernetes.NewForConfig(c.Config)
	return c, err
}

func logf(format string, args ...any) { fmt.Fprintf(os.Stderr, "kubetest: "+format+"\n", args...) }

// Stop ends the control plane in order. Clients get connection refused until it is started again.
func (c *Cluster) Stop(t testing.TB) {
	t.Helper()
	must(t, c.plane.Stop(syscall.SIGTERM))
}

// Kill ends the control plane as kill -9 does.
func (c *Cluster) Kill(t testing.TB) {
	t.Helper()
	must(t, c.plane.Stop(syscall.SIGKILL))
}

// Start starts the control plane again after Stop or Kill: on the same port, with the same objects, certificates and tokens. It returns
// when it can be used.
func (c *Cluster) Start(t testing.TB) {
	t.Helper()
	must(t, c.plane.Start(t.Context()))
}

// Hang has the control plane take connections and answer nothing, until Resume.
func (c *Cluster) Hang(t testing.TB) {
	t.Helper()
	must(t, c.plane.Signal(syscall.SIGSTOP))
}

// Resume ends what Hang began. What was asked meanwhile is answered.
func (c *Cluster) Resume(t testing.TB) {
	t.Helper()
	must(t, c.plane.Signal(syscall.SIGCONT))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("kubetest: %v", err)
	}
}
