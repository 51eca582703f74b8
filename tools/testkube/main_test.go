package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"berth/internal/kubebuild"
)

// called runs the tool, with a script in place of the control plane.
func called(t *testing.T, args ...string) (out string, status int, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "testkube")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\necho $2/admin.kubeconfig\nexec cat >/dev/null\n"), 0o700)) //nolint:gosec // it is run
	t.Setenv(kubebuild.Env, path)
	var stdout, stderr strings.Builder
	status, err = run(t.Context(), args, strings.NewReader("from stdin"), &stdout, &stderr)
	require.Empty(t, stderr.String())
	if len(args) == 0 {
		require.Equal(t, path+"\n", stdout.String())
	}
	return stdout.String(), status, err
}

func TestWhereItIs(t *testing.T) { //nolint:paralleltest // it sets the environment
	_, status, err := called(t)
	require.NoError(t, err)
	require.Zero(t, status)
}

func TestRun(t *testing.T) { //nolint:paralleltest // it sets the environment
	out, status, err := called(t, "sh", "-c", `echo "$KUBECONFIG"; test -d "${KUBECONFIG%/*}" && cat; exit $1`, "sh", "7")
	require.NoError(t, err)
	require.Equal(t, 7, status)
	kubeconfig, rest, _ := strings.Cut(out, "\n")
	require.Equal(t, "admin.kubeconfig", filepath.Base(kubeconfig))
	require.Equal(t, "from stdin", rest)
	require.NoDirExists(t, filepath.Dir(kubeconfig), "it ended with the command")
}

func TestNoSuchCommand(t *testing.T) { //nolint:paralleltest // it sets the environment
	_, status, err := called(t, "no-such-command")
	require.ErrorContains(t, err, `find the command to run: exec: "no-such-command"`)
	require.Equal(t, 1, status)
}

// Whoever ends the tool ends the command; an interrupt it has already got from the terminal.
func TestSignals(t *testing.T) {
	t.Parallel()
	signals := make(chan os.Signal, 2)
	signals <- syscall.SIGINT
	signals <- syscall.SIGTERM
	status, err := follow(exec.CommandContext(t.Context(), "sh", "-c", `exec tail -f /dev/null`), signals)
	require.ErrorContains(t, err, "signal: terminated")
	require.Equal(t, 1, status)
}
