package kuberun

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"berth/internal/kubebuild"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// standIn has a script run in place of the control plane. It gets "--dir DIR".
func standIn(t *testing.T, script string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "testkube")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700)) //nolint:gosec // it is run
	t.Setenv(kubebuild.Env, path)
}

// serves says that it is usable, and ends when its leash does.
const serves = "echo $2/admin.kubeconfig\nexec cat >/dev/null\n"

func TestOpenAndClose(t *testing.T) { //nolint:paralleltest // it sets the environment
	standIn(t, serves)
	p, err := Open(t.Context(), Options{}, t.Logf)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(p.Dir(), "admin.kubeconfig"), p.Kubeconfig())
	require.True(t, p.Running())
	pid := p.PID()
	require.NoError(t, syscall.Kill(pid, 0))
	group, err := syscall.Getpgid(pid)
	require.NoError(t, err)
	require.Equal(t, pid, group, "what a terminal sends is not for it")

	require.NoError(t, p.Signal(syscall.SIGSTOP))
	require.NoError(t, p.Stop(syscall.SIGTERM), "one that hangs, too")
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	require.False(t, p.Running())
	require.Zero(t, p.PID())
	require.NoError(t, p.Stop(syscall.SIGTERM), "it is stopped")
	require.ErrorContains(t, p.Signal(syscall.SIGSTOP), "is stopped")
	require.NoError(t, p.Start(t.Context()))
	require.ErrorContains(t, p.Start(t.Context()), "runs already")
	require.NoError(t, p.Close())
	require.NoDirExists(t, p.Dir())
}

func TestStartThatFails(t *testing.T) { //nolint:paralleltest // it sets the environment
	standIn(t, "echo a first line >&2\necho no memory >&2\nexit 3\n")
	_, err := Open(t.Context(), Options{}, t.Logf)
	require.EqualError(t, err, "start the control plane: exit status 3: no memory")
}

func TestStartThatIsGivenUp(t *testing.T) { //nolint:paralleltest // it sets the environment
	standIn(t, "exec cat >/dev/null\n")
	impatient := errors.New("no patience")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(impatient)
	_, err := Open(ctx, Options{}, t.Logf)
	require.EqualError(t, err, "start the control plane: no patience")
}

func TestSweep(t *testing.T) {
	standIn(t, serves)
	t.Setenv("TMPDIR", t.TempDir())
	p, err := Open(t.Context(), Options{}, t.Logf)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	gone := filepath.Join(os.TempDir(), dirPrefix+"999999999-1") // no system has so many
	require.NoError(t, os.Mkdir(gone, 0o700))
	Sweep()
	require.NoDirExists(t, gone)
	require.DirExists(t, p.Dir(), "it runs")
	sweep(os.Getpid())
	require.NoDirExists(t, p.Dir())
}

func TestArgs(t *testing.T) {
	t.Parallel()
	require.Empty(t, Options{}.args())
	require.Equal(t, []string{"--nodes", "2", "--memory", "1Gi"}, Options{Nodes: 2, Memory: "1Gi"}.args())
}
