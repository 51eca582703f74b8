//go:build unix && !aix && !solaris

package postgres

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

func (s *Server) pidFile() string { return filepath.Join(s.dir, "postmaster.pid") }

// pid is the postmaster's, 0 when none of this cluster runs.
func (s *Server) pid() int {
	text, err := os.ReadFile(s.pidFile())
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || pid <= 1 || !s.alive(pid) {
		return 0
	}
	return pid
}

// disown makes a server that is gone hold nothing up. Its number in the files it left may have been given to another process,
// or be a zombie's, and a new server would refuse to start. The files stay, for postmaster.pid also tells the new server how
// to see that no backend of the old one is at work on the data. With our own number in them it takes them for stale: it never
// minds that of its parent.
func (s *Server) disown() error {
	for _, path := range []string{s.pidFile(), filepath.Join(s.dir, ".s.PGSQL.5432.lock")} {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		_, rest, ok := strings.Cut(string(text), "\n")
		if !ok { // cut short as it was written, so nothing was started after it
			err = os.Remove(path)
		} else {
			err = os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"+rest), 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// alive says whether a process is there and is this cluster's postmaster: a number may have been given to another process.
func (s *Server) alive(pid int) bool {
	if pid == s.child {
		var status syscall.WaitStatus
		if got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil); got == pid || errors.Is(err, syscall.ECHILD) {
			s.child = 0
			return false
		}
		return true
	}
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return false
	}
	line, known := commandLine(pid)
	return !known || strings.Contains(line, s.dir)
}

// commandLine is what a process was started with, its parts apart by blanks; empty for a zombie. Known is false when the
// system does not tell.
func commandLine(pid int) (line string, known bool) {
	if text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline"); err == nil {
		return string(bytes.ReplaceAll(bytes.TrimRight(text, "\x00"), []byte{0}, []byte{' '})), true
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	return strings.TrimSpace(string(out)), err == nil
}
