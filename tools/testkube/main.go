// Command testkube builds the Kubernetes control plane that the tests run, if it is not in the cache yet.
//
//	testkube                  prints where the program is
//	testkube COMMAND ARG...   runs a command with KUBECONFIG naming a fresh control plane, which ends with it
//
// The exit status is the command's.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"berth/internal/kubebuild"
	"berth/internal/kuberun"
)

func main() {
	status, err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testkube:", err)
		status = max(status, 1)
	}
	os.Exit(status)
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (status int, err error) {
	logf := func(format string, args ...any) { fmt.Fprintf(stderr, "testkube: "+format+"\n", args...) }
	if len(args) == 0 {
		path, err := kubebuild.Program(ctx, logf)
		if err == nil {
			fmt.Fprintln(stdout, path)
		}
		return 0, err
	}
	program, err := exec.LookPath(args[0]) // before anything is built for it
	if err != nil {
		return 1, fmt.Errorf("find the command to run: %w", err)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	opening, opened := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	plane, err := kuberun.Open(opening, kuberun.Options{}, logf)
	opened()
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, plane.Close()) }()
	cmd := exec.CommandContext(ctx, program, args[1:]...) //nolint:gosec // it is what we are asked to run
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	cmd.Env = append(os.Environ(), "KUBECONFIG="+plane.Kubeconfig())
	return follow(cmd, signals)
}

// follow runs a command to its end. An interrupt comes from a terminal, which sends it to the command too; whoever ends this process means
// the command.
func follow(cmd *exec.Cmd, signals <-chan os.Signal) (status int, err error) {
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			if s == syscall.SIGTERM {
				_ = cmd.Process.Signal(s) // it may have ended
			}
		case err := <-ended:
			var failed *exec.ExitError
			if errors.As(err, &failed) && failed.Exited() {
				return failed.ExitCode(), nil // it has said why
			}
			if err != nil {
				return 1, fmt.Errorf("run %s: %w", cmd.Path, err)
			}
			return 0, nil
		}
	}
}
