package kubetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/stretchr/testify/require"

	"berth/internal/kuberun"
)

var readPods = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}}

func TestUsable(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	c := Private(t, Options{Nodes: 2, CPU: "3", Memory: "8Gi", Pods: 11})
	t.Logf("usable after %v", time.Since(begun))
	v, err := c.Client.Discovery().ServerVersion()
	require.NoError(t, err)
	require.Regexp(t, `^v1\.\d+\.\d+$`, v.GitVersion)
	nodes, err := c.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, nodes.Items, 2)
	for _, n := range nodes.Items {
		require.Equal(t, "3", n.Status.Allocatable.Cpu().String())
		require.Equal(t, "8Gi", n.Status.Allocatable.Memory().String())
		require.Equal(t, "11", n.Status.Allocatable.Pods().String())
	}
}

func TestOneNamespaceForEachTest(t *testing.T) {
	t.Parallel()
	a, b := New(t), New(t)
	require.NotEqual(t, a.Name, b.Name)
	require.Same(t, a.Cluster, b.Cluster)
	require.Contains(t, a.Name, "testonenamespaceforeachtest")
}

func TestNamespaceGoesWithItsTest(t *testing.T) {
	t.Parallel()
	leaveOut(t)
	var n *Namespace
	t.Run("Inner", func(t *testing.T) { n = New(t) })
	is, err := n.Client.CoreV1().Namespaces().Get(t.Context(), n.Name, metav1.GetOptions{})
	if err == nil {
		require.Equal(t, corev1.NamespaceTerminating, is.Status.Phase)
	}
}

// TestStoppedAndStarted also says that what a client holds stays good: address, certificates, tokens.
func TestStoppedAndStarted(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*Cluster, testing.TB){"Killed": (*Cluster).Kill, "Stopped": (*Cluster).Stop} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := Private(t, Options{Nodes: 1})
			n := c.Namespace(t)
			apply(t, n, deployment(n, "web"))
			awaitAvailable(t, n, "web")
			before := awaitPod(t, n, "web", "is there", func(*corev1.Pod) bool { return true })
			a := n.Account(t, "reader", Rights{Role: readPods})

			stop(c, t)
			_, err := n.Client.CoreV1().Pods(n.Name).List(t.Context(), metav1.ListOptions{})
			require.ErrorIs(t, err, syscall.ECONNREFUSED)
			begun := time.Now()
			c.Start(t)
			t.Logf("usable again after %v", time.Since(begun))

			list, err := a.Client.CoreV1().Pods(n.Name).List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			require.Len(t, list.Items, 1)
			require.Equal(t, before.UID, list.Items[0].UID)
			require.Equal(t, before.Status.PodIP, list.Items[0].Status.PodIP)
			apply(t, n, deployment(n, "later"))
			awaitAvailable(t, n, "later")
			after := awaitPod(t, n, "later", "is there", func(*corev1.Pod) bool { return true })
			require.NotEqual(t, before.Status.PodIP, after.Status.PodIP)
		})
	}
}

func TestHang(t *testing.T) {
	t.Parallel()
	c := Private(t, Options{Nodes: 1})
	c.Hang(t)
	impatient := rest.CopyConfig(c.Config)
	impatient.Timeout = 100 * time.Millisecond
	client, err := kubernetes.NewForConfig(impatient)
	require.NoError(t, err)
	_, err = client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.Error(t, err)
	require.True(t, os.IsTimeout(errors.Unwrap(err)) || errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "Timeout exceeded"), "%v", err)
	c.Resume(t)
	_, err = c.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	c.Hang(t) // and it is ended all the same
}

const parentEnv = "BERTH_KUBETEST_PARENT" // makes this program one that starts a control plane and then does nothing

func beParent() {
	c, err := open(Options{Nodes: 1})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if os.Getenv(parentEnv) == "hung" {
		_ = c.plane.Signal(syscall.SIGSTOP)
	}
	fmt.Println(c.plane.PID(), c.plane.Dir())
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// TestEndsWithItsParent kills a process that uses a control plane.
func TestEndsWithItsParent(t *testing.T) {
	t.Parallel()
	leaveOut(t)
	for _, how := range []string{"running", "hung"} {
		self, err := os.Executable()
		require.NoError(t, err)
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Env = append(os.Environ(), parentEnv+"="+how)
		_, err = cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		number, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		pid, err := strconv.Atoi(number)
		require.NoError(t, err, line)
		require.NoError(t, syscall.Kill(pid, 0))
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		until(t, "the control plane is gone: "+how, func(context.Context) (bool, error) { return gone(pid), nil })
		kuberun.Sweep()
		require.NoDirExists(t, dir)
	}
}

// gone says whether there is no such process. One that has ended but was not yet waited for, by whoever adopted it, is gone.
func gone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return errors.Is(err, os.ErrNotExist) && dirExists("/proc/self")
	}
	_, state, _ := strings.Cut(string(text), ") ")
	return strings.HasPrefix(state, "Z")
}

func dirExists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func TestFaultyStart(t *testing.T) {
	t.Parallel()
	leaveOut(t)
	_, err := open(Options{CPU: "many"})
	require.ErrorContains(t, err, `start the control plane: exit status 1: `)
	require.ErrorContains(t, err, `"many"`)
	require.NotContains(t, err.Error(), "\n")
}
