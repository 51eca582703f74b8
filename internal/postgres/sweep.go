//go:build unix && !aix && !solaris

package postgres

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"berth/internal/filelock"
)

// temporaryPrefix begins the names of temporary clusters; the pid of their owner follows.
const temporaryPrefix = "tmp-"

// sweep removes temporary clusters whose owners were killed, servers that still run included. What cannot be removed now is
// left to the next sweep.
func sweep(ctx context.Context, dir string, logf func(string, ...any)) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		logf("look for left over clusters: %v", err)
	}
	for _, e := range entries {
		name, isLock := strings.CutSuffix(e.Name(), ".lock")
		rest, isTemporary := strings.CutPrefix(name, temporaryPrefix)
		owner, _, _ := strings.Cut(rest, "-")
		pid, err := strconv.Atoi(owner)
		if !isLock || !isTemporary || err != nil || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			continue
		}
		if err := sweepOne(ctx, filepath.Join(dir, name)); err != nil {
			logf("left over cluster %s: %v", name, err)
		}
	}
}

func sweepOne(ctx context.Context, cluster string) error {
	for _, suffix := range []string{".lock", ".users"} {
		f, err := filelock.Open(cluster + suffix)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		if ok, err := filelock.Try(f); err != nil || !ok {
			return err // nil: it is in use after all
		}
	}
	s := &Server{dir: cluster}
	if err := s.down(ctx, syscall.SIGQUIT); err != nil {
		return err
	}
	return s.remove()
}
