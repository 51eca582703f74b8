package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// look is how often something is asked for until it is so, at the start.
const look = 20 * time.Millisecond

// controlPlane is one that is usable.
type controlPlane struct {
	kubeconfig string     // path of the administrator's
	failed     chan error // why a part of it ended
}

// start starts all parts and returns once they can be used.
func start(ctx context.Context, o options) (*controlPlane, error) {
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return nil, err
	}
	if err := logTo(filepath.Join(o.dir, "components.log")); err != nil {
		return nil, err
	}
	etcd, err := startEtcd(o.dir)
	if err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	keys, err := openKeys(o.dir)
	if err != nil {
		return nil, fmt.Errorf("make certificates: %w", err)
	}
	// Bound before anything knows the address, so nobody can take the port in between.
	ln, err := listen(ctx, o.dir)
	if err != nil {
		return nil, err
	}
	server := "https://" + ln.Addr().String()
	c := &controlPlane{failed: make(chan error, 3)}
	users := map[string]string{}
	for _, u := range []user{{file: "admin", name: "admin", group: "system:masters"}, {file: "controllers", name: "system:kube-controller-manager"},
		{file: "scheduler", name: "system:kube-scheduler"}} {
		if users[u.file], err = keys.kubeconfig(o.dir, server, u); err != nil {
			return nil, fmt.Errorf("write kubeconfig %s: %w", u.file, err)
		}
	}
	c.kubeconfig = users["admin"]
	client, err := administrator(c.kubeconfig)
	if err != nil {
		return nil, err
	}

	c.run(ctx, "API server", func() error { return runAPIServer(ctx, ln, etcd, keys) })
	if err := c.until(ctx, "the API server is ready", func(ctx context.Context) bool {
		_, err := client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Raw()
		return err == nil
	}); err != nil {
		return nil, err
	}
	c.run(ctx, "controller manager", func() error { return runControllers(ctx, users["controllers"], keys) })
	c.run(ctx, "scheduler", func() error { return runScheduler(ctx, users["scheduler"]) })
	if err := simulate(ctx, client, o); err != nil {
		return nil, err
	}
	return c, c.until(ctx, "nodes can be used", func(ctx context.Context) bool { return usable(ctx, client, o.nodes) })
}

// run runs a part, which does not end by itself.
func (c *controlPlane) run(ctx context.Context, name string, part func() error) {
	go func() {
		err := part()
		if ctx.Err() == nil {
			c.failed <- fmt.Errorf("the %s ended: %w", name, errors.Join(err, errEnded))
		}
	}()
}

var errEnded = errors.New("nobody asked it to")

// until waits for something to be so, or for a part to fail.
func (c *controlPlane) until(ctx context.Context, what string, so func(context.Context) bool) error {
	var failed error
	err := wait.PollUntilContextTimeout(ctx, look, 5*time.Minute, true, func(ctx context.Context) (bool, error) {
		select {
		case failed = <-c.failed:
			return false, failed
		default:
			return so(ctx), nil
		}
	})
	if err != nil && failed == nil {
		return fmt.Errorf("wait until %s: %w", what, err)
	}
	return err
}

// usable says whether the controllers run, and pods would find a node.
func usable(ctx context.Context, client kubernetes.Interface, nodes int) bool {
	if _, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{}); err != nil {
		return false
	}
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) < nodes {
		return false
	}
	for _, n := range list.Items {
		for _, t := range n.Spec.Taints {
			if t.Key == corev1.TaintNodeNotReady {
				return false
			}
		}
	}
	return true
}

// administrator is a client without limits.
func administrator(kubeconfig string) (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return kubernetes.NewForConfig(config)
}

// logTo has what Kubernetes' parts say in a file, and what the simulation says on stderr.
func logTo(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	klog.LogToStderr(false)
	klog.SetOutput(f)
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	return nil
}

// listen takes the port that the directory names, or a free one, and writes it there. It is below those that outgoing connections
// get, so that it is free again when this process is started again.
func listen(ctx context.Context, dir string) (ln net.Listener, err error) {
	const low, high = 20000, 32000
	path := filepath.Join(dir, "port")
	var config net.ListenConfig
	bind := func(port string) (net.Listener, error) {
		return config.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", port))
	}
	switch text, err := os.ReadFile(path); {
	case err == nil:
		return bind(strings.TrimSpace(string(text)))
	case !errors.Is(err, os.ErrNotExist):
		return nil, err
	}
	for range 100 {
		port := strconv.Itoa(low + rand.IntN(high-low))
		if ln, err = bind(port); err == nil {
			return ln, os.WriteFile(path, []byte(port+"\n"), 0o600)
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return nil, err
}
