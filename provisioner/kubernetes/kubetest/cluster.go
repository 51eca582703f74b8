package kubetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"berth/internal/kubebuild"
)

const (
	startBound = 5 * time.Minute  // it takes seconds, and a minute on a machine that is very busy
	stopBound  = 10 * time.Second // it takes a moment
)

// Options say how a control plane is made. Zero is what the shared one has.
type Options struct {
	Nodes       int    // 3 if 0
	CPU, Memory string // of each node, as quantities: 128 and 1Ti if empty
	Pods        int    // that each node takes: 2,000 if 0
}

func (o Options) args() []string {
	var args []string
	add := func(name, value string) {
		if value != "" && value != "0" {
			args = append(args, "--"+name, value)
		}
	}
	add("nodes", strconv.Itoa(o.Nodes))
	add("cpu", o.CPU)
	add("memory", o.Memory)
	add("pods", strconv.Itoa(o.Pods))
	return args
}

// Cluster is a control plane. What its methods do everybody sees who uses it.
type Cluster struct {
	// Config is an administrator's, without limits of the client's own. It stays good when the control plane is started again.
	Config *rest.Config
	Client *kubernetes.Clientset
	// Kubeconfig is a file that says the same.
	Kubeconfig string

	dir     string
	program string
	args    []string
	made    atomic.Int64 // namespaces

	mu      sync.Mutex
	process *process // nil while it is stopped
}

// Private starts a control plane of the test's own, which it may stop, kill and hang. It takes seconds, and 400 MB of memory.
func Private(t testing.TB, o Options) *Cluster {
	t.Helper()
	c, err := open(o)
	if err != nil {
		t.Fatalf("kubetest: %v", err)
	}
	t.Cleanup(func() {
		if err := c.close(); err != nil {
			t.Errorf("kubetest: %v", err)
		}
	})
	return c
}

func open(o Options) (c *Cluster, err error) {
	ctx := context.Background() // whoever asks first starts it for all
	program, err := kubebuild.Program(ctx, logf)
	if err != nil {
		return nil, err
	}
	swept.Do(func() { sweep(os.Getpid()) }) // this process has made none yet: one of its number is an earlier one's
	dir, err := os.MkdirTemp("", dirPrefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return nil, err
	}
	c = &Cluster{dir: dir, program: program, args: append([]string{"--dir", dir, "--leash"}, o.args()...)}
	defer func() {
		if err != nil {
			c, err = nil, errors.Join(err, c.close())
		}
	}()
	if err := c.start(ctx); err != nil {
		return c, err
	}
	if c.Config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
		return c, err
	}
	c.Config.QPS = -1
	c.Client, err = kubernetes.NewForConfig(c.Config)
	return c, err
}

func logf(format string, args ...any) { fmt.Fprintf(os.Stderr, "kubetest: "+format+"\n", args...) }

// start starts the process and waits until it can be used.
func (c *Cluster) start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process != nil {
		return errors.New("the control plane runs already")
	}
	log := filepath.Join(c.dir, "testkube.log")
	p, err := launch(c.program, c.args, log)
	if err != nil {
		return fmt.Errorf("start the control plane: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startBound, fmt.Errorf("it was not usable after %v", startBound))
	defer cancel()
	select {
	case path, ok := <-p.ready:
		if ok {
			c.process, c.Kubeconfig = p, path
			return nil
		}
		err = errors.Join(p.wait(), errors.New(lastLine(log)))
	case <-ctx.Done():
		err = errors.Join(context.Cause(ctx), p.signal(syscall.SIGKILL), p.wait())
	}
	return fmt.Errorf("start the control plane: %s", strings.ReplaceAll(err.Error(), "\n", ": "))
}

// stop ends the process, and returns once it has ended. It may be stopped already, or hang.
func (c *Cluster) stop(s syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.process
	if p == nil {
		return nil
	}
	c.process = nil
	for _, s := range []syscall.Signal{s, syscall.SIGCONT} {
		if err := p.signal(s); err != nil {
			return fmt.Errorf("stop the control plane: %w", err)
		}
	}
	late := time.NewTimer(stopBound)
	defer late.Stop()
	select {
	case <-p.ended:
		return nil
	case <-late.C:
		return errors.Join(fmt.Errorf("the control plane did not stop in %v", stopBound), p.signal(syscall.SIGKILL), p.wait())
	}
}

func (c *Cluster) close() error { return errors.Join(c.stop(syscall.SIGTERM), os.RemoveAll(c.dir)) }

// Stop ends the control plane in order. Clients get connection refused until it is started again.
func (c *Cluster) Stop(t testing.TB) {
	t.Helper()
	must(t, c.stop(syscall.SIGTERM))
}

// Kill ends the control plane as kill -9 does.
func (c *Cluster) Kill(t testing.TB) {
	t.Helper()
	must(t, c.stop(syscall.SIGKILL))
}

// Start starts the control plane again after Stop or Kill: on the same port, with the same objects, certificates and tokens. It returns
// when it can be used.
func (c *Cluster) Start(t testing.TB) {
	t.Helper()
	must(t, c.start(t.Context()))
}

// Hang has the control plane take connections and answer nothing, until Resume.
func (c *Cluster) Hang(t testing.TB) {
	t.Helper()
	must(t, c.signal(syscall.SIGSTOP))
}

// Resume ends what Hang began. What was asked meanwhile is answered.
func (c *Cluster) Resume(t testing.TB) {
	t.Helper()
	must(t, c.signal(syscall.SIGCONT))
}

func (c *Cluster) signal(s syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return errors.New("the control plane is stopped")
	}
	return c.process.signal(s)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("kubetest: %v", err)
	}
}

const dirPrefix = "berth-testkube-"

var swept sync.Once

// sweep removes what processes left that are gone, and what the process left that had a number.
func sweep(earlier int) {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	for _, dir := range left {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), dirPrefix), "-")
		if n, err := strconv.Atoi(pid); err == nil && (n == earlier || errors.Is(syscall.Kill(n, 0), syscall.ESRCH)) {
			_ = os.RemoveAll(dir)
		}
	}
}

func lastLine(path string) string {
	text, _ := os.ReadFile(path)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}
