package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// screen is a terminal: what a program writes to it, and what a person sees.
func screen(t *testing.T) (program, person *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = person.Close() })
	var locked, n int32
	const lock, number = 0x40045431, 0x80045430 // TIOCSPTLCK, TIOCGPTN
	for request, value := range map[uintptr]*int32{lock: &locked, number: &n} {
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, person.Fd(), request, uintptr(unsafe.Pointer(value)))
		require.Zero(t, errno)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = program.Close() })
	return program, person
}

// Who waits at a terminal sees each change once; a program that waits sees what comes of it.
func TestProgress(t *testing.T) {
	t.Parallel()
	b := seeded(t)
	id := uuid.NewString()
	b.ok("deployment", "create", "acme/web", "--id", id)
	program, person := screen(t)
	done := make(chan error, 1)
	wait := []string{"deployment", "wait", id, "--for", "running", "--timeout", patience.String()}
	go func() {
		done <- run(context.WithoutCancel(t.Context()), wait, func(name string) (string, bool) { v, ok := b.env[name]; return v, ok }, &buffer{}, program)
	}()
	silent := make(chan result, 1)
	go func() { silent <- worker(context.WithoutCancel(t.Context()), b.env, wait...) }()
	lines := bufio.NewScanner(person)
	next := func() string {
		t.Helper()
		require.True(t, lines.Scan(), lines.Err())
		return lines.Text()
	}
	require.True(t, strings.HasSuffix(next(), ": pending"))
	b.exec("UPDATE berth.provisioner_resources SET reason = 'NoCapacity', message = $2 WHERE deployment_id = $1", id, "all \x1b[31mfull")
	require.True(t, strings.HasSuffix(next(), ": pending: NoCapacity: all [31mfull"))
	b.runs(id)
	require.Contains(t, next(), "is running at")
	require.NoError(t, <-done)
	r := <-silent
	require.Zero(t, r.status)
	require.Equal(t, 1, strings.Count(r.stderr, "\n"), r.stderr)
}
