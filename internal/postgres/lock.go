//go:build unix && !aix && !solaris

package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// openLock opens the file of a lock. It is closed on exec, so no child keeps the lock.
func openLock(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
}

// tryLock takes an exclusive lock if nobody has it.
func tryLock(f *os.File) (bool, error) {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		default:
			return false, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
		}
	}
}

// lock takes the exclusive lock of a path, waiting for it as long as ctx lasts. Closing the file gives it back.
func lock(ctx context.Context, path string) (*os.File, error) {
	f, err := openLock(path)
	if err != nil {
		return nil, err
	}
	for {
		ok, err := tryLock(f)
		if ok {
			return f, nil
		}
		if err == nil {
			err = pause(ctx, 10*time.Millisecond)
		}
		if err != nil {
			_ = f.Close()
			return nil, fmt.Errorf("wait for another process that starts or stops Postgres: %w", err)
		}
	}
}

// share takes a shared lock. Nobody holds the exclusive one for longer than a look, so it does not wait.
func share(path string) (*os.File, error) {
	f, err := openLock(path)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH); err != nil {
		_ = f.Close()
		return nil, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	return f, nil
}

// pause waits, or returns ctx's cause.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
