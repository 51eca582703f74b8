package main

import (
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"berth/lifecycle"
)

// deafs are the ways in which nothing that is written to stderr arrives. Each makes a command of arguments.
func deafs(t *testing.T) map[string]func(args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return map[string]func(args ...string) *exec.Cmd{
		"FullDevice": func(args ...string) *exec.Cmd {
			full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			require.NoError(t, err)
			t.Cleanup(func() { _ = full.Close() })
			cmd := exec.CommandContext(t.Context(), self, args...)
			cmd.Stderr = full
			return cmd
		},
		"ReaderGone": func(args ...string) *exec.Cmd { // as when what collects the logs has crashed
			r, w, err := os.Pipe()
			require.NoError(t, err)
			require.NoError(t, r.Close())
			t.Cleanup(func() { _ = w.Close() })
			cmd := exec.CommandContext(t.Context(), self, args...)
			cmd.Stderr = w
			return cmd
		},
		"Closed": func(args ...string) *exec.Cmd {
			cmd := exec.CommandContext(t.Context(), "/bin/sh", append([]string{"-c", `exec "$0" "$@" 2>&-`, self}, args...)...)
			cmd.Stderr = os.Stderr // of the shell alone
			return cmd
		},
	}
}

// A worker goes on where nobody can read what it logs, and a command ends as it would.
func TestStderrThatTakesNothing(t *testing.T) {
	t.Parallel()
	for name, deaf := range deafs(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGate(t)
			g.open()
			b := setup(t).with(pool(t, 4, g.URL))
			b.ok("org", "create", "acme")
			b.ok("project", "create", "acme/web")

			p := startCommand(t, deaf(unheard([]string{"run", "--log-level", "debug"})...), b.env)
			p.line(p.stdout, "ready")
			id := uuid.NewString()
			d := decode[lifecycle.Deployment](t, b.ok("deployment", "create", "acme/web", "--id", id, "--wait", patience.String(), "-o", "json"))
			require.Equal(t, lifecycle.Running, d.State)
			b.ok("deployment", "delete", id, "--wait", patience.String())
			require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
			status := p.wait()
			require.True(t, status.Exited() && status.ExitStatus() == 0, "%v", status)
			require.Zero(t, b.count("SELECT count(*) FROM berth.workers WHERE alive_until > clock_timestamp()"))

			for want, args := range map[int][]string{
				0:           {"org", "create", "other"},
				exitFailed:  {"org", "list", "--database-url", "postgres://u@127.0.0.1:1/nowhere"},
				exitUsage:   {"deployment", "show", "12"},
				exitRefused: {"deployment", "show", someID},
			} {
				status := startCommand(t, deaf(args...), b.env).wait()
				require.True(t, status.Exited() && status.ExitStatus() == want, "%v: %v", args, status)
			}
			require.Contains(t, b.ok("org", "list"), "other")
		})
	}
}

// What could not be written failed, help as much as a result.
func TestStdoutThatTakesNothing(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = full.Close() })
	env := configuredWith(poolSet, "static-example")
	lookup := func(name string) (string, bool) { value, ok := env[name]; return value, ok }
	for _, args := range [][]string{{"--help"}, {"org", "--help"}, {"completion", "bash"}, {"config", "check"}} {
		err := run(t.Context(), args, lookup, full, io.Discard)
		require.Equal(t, exitFailed, exitStatus(err), "%v: %v", args, err)
		require.Contains(t, errorLines(err), "no space left on device")
	}
}
