//go:build unix && !aix && !solaris

package postgres

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	embedded "github.com/fergusstrange/embedded-postgres"
)

// downloadBound is how long all of a download may take, unpacking included.
const downloadBound = 10 * time.Second

// download fetches binaries into the cache. Only that part of the library is used: it cannot run a server as another user,
// nor join one that it lost. Two processes may download at once; each unpacks into a directory of its own.
func (f *finder) download(ctx context.Context) (binaries, error) {
	if err := os.MkdirAll(f.cache, 0o755); err != nil {
		return binaries{}, fmt.Errorf("download: %w", err)
	}
	scratch, err := os.MkdirTemp(f.cache, ".part-")
	if err != nil {
		return binaries{}, fmt.Errorf("download: %w", err)
	}
	// The library unpacks, then prepares a data directory, then starts a server. A data directory inside a file makes it stop
	// after the first of these, and its error says nothing about whether that went well: the probe does.
	block := filepath.Join(scratch, "block")
	if err := os.WriteFile(block, nil, 0o600); err != nil {
		return binaries{}, fmt.Errorf("download: %w", err)
	}
	unpacked := filepath.Join(scratch, "unpacked")
	config := embedded.DefaultConfig().Version(embedded.V17).Port(0).Logger(io.Discard).
		CachePath(filepath.Join(scratch, "archive")).RuntimePath(filepath.Join(scratch, "run")).
		BinariesPath(unpacked).DataPath(filepath.Join(block, "data"))
	if f.repository != "" {
		config = config.BinaryRepositoryURL(f.repository)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, f.bound, fmt.Errorf("not done within %v", f.bound))
	defer cancel()
	done := make(chan error, 1)
	go func() {
		// It knows no context: after the bound it is left to itself, and clears up behind itself if the process lives on.
		err := embedded.NewDatabase(config).Start()
		if ctx.Err() != nil {
			_ = os.RemoveAll(scratch)
		}
		done <- err
	}()
	select {
	case <-ctx.Done():
		return binaries{}, fmt.Errorf("download: %w", context.Cause(ctx))
	case err = <-done:
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	// Readable for the account that the server runs as.
	if e := os.Chmod(scratch, 0o755); e != nil {
		return binaries{}, fmt.Errorf("download: %w", e)
	}
	if _, e := f.probe(ctx, filepath.Join(unpacked, "bin"), "download"); e != nil {
		return binaries{}, fmt.Errorf("download: %w", err)
	}
	final := filepath.Join(f.cache, string(embedded.V17))
	if e := os.Rename(unpacked, final); e != nil && !os.IsExist(e) {
		return binaries{}, fmt.Errorf("download: %w", e)
	}
	return f.probe(ctx, filepath.Join(final, "bin"), "download")
}
