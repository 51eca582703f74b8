//go:build unix && !aix && !solaris

// Package filelock locks files among processes. Closing a file gives its lock back, and so does the end of the process; none is kept
// by a child, because the files are closed on exec.
package filelock

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// every is how long one waits between two tries for a lock that somebody has.
const every = 10 * time.Millisecond

// Open opens the file of a lock, which it makes if there is none.
func Open(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
}

// Try takes the exclusive lock of an open file if nobody has any. It may be repeated.
func Try(f *os.File) (bool, error) {
	err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// Lock opens a file and takes its exclusive lock. If somebody has it, waiting is called once, if it is not nil, and Lock waits as long
// as ctx lasts, whose cause it returns then.
func Lock(ctx context.Context, path string, waiting func()) (*os.File, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		ok, err := Try(f)
		if ok {
			return f, nil
		}
		if err != nil {
			_ = f.Close()
			return nil, err
		}
		if waiting != nil {
			waiting()
			waiting = nil
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// Share opens a file and takes a shared lock of it. It waits for as long as somebody has the exclusive one.
func Share(path string) (*os.File, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	if err := flock(f, syscall.LOCK_SH); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EINTR) {
			return &os.PathError{Op: "lock", Path: f.Name(), Err: err}
		}
	}
}
