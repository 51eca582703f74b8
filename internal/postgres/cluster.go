//go:build unix && !aix && !solaris

package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	startBound = 60 * time.Second      // of a start, recovery included
	lookEvery  = 10 * time.Millisecond // between two looks whether it answers, or has stopped
	lingering  = 5 * time.Second       // how long children of a killed server may take to go away
	maxLog     = 16 << 20              // bytes of the log that are kept at a start
)

var (
	errExited = errors.New("it exited")
	// errInUse: processes of an earlier server still hold the data directory.
	errInUse = errors.New("the data directory is in use")
)

// up makes the cluster and starts the server, as far as that has not been done. The cluster is locked.
func (s *Server) up(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startBound, fmt.Errorf("no answer within %v", startBound))
	defer cancel()
	begun := time.Now()
	if pid := s.pid(); pid != 0 {
		if err := s.answers(ctx); err == nil {
			s.logf("Postgres joined, pid %d, in %v", pid, time.Since(begun).Round(time.Millisecond))
			return nil
		} else if !errors.Is(err, errExited) {
			return fmt.Errorf("join Postgres, pid %d: %w", pid, err)
		}
	}
	if _, err := os.Stat(filepath.Join(s.dir, "PG_VERSION")); errors.Is(err, fs.ErrNotExist) {
		if err := s.initdb(ctx); err != nil {
			return err
		}
		s.logf("Postgres cluster made in %s in %v", s.dir, time.Since(begun).Round(time.Millisecond))
		begun = time.Now()
	} else if err != nil {
		return fmt.Errorf("look for the cluster: %w", err)
	}
	for {
		err := s.launch(ctx)
		if err == nil {
			s.logf("Postgres started, pid %d, in %v", s.pid(), time.Since(begun).Round(time.Millisecond))
			return nil
		}
		if !errors.Is(err, errInUse) || time.Since(begun) > lingering || pause(ctx, 50*time.Millisecond) != nil {
			return err
		}
	}
}

// initdb makes the cluster beside its place and renames it when it is whole: one that was cut short leaves no half cluster.
func (s *Server) initdb(ctx context.Context) error {
	half := s.dir + ".init"
	if err := os.RemoveAll(half); err != nil {
		return fmt.Errorf("initdb: %w", err)
	}
	if err := os.Mkdir(half, 0o700); err != nil {
		return fmt.Errorf("initdb: %w", err)
	}
	if s.as.drop {
		if err := os.Chown(half, s.as.uid, s.as.gid); err != nil {
			return fmt.Errorf("initdb: %w", err)
		}
	}
	args := []string{"-D", half, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale"}
	if !s.durable {
		args = append(args, "--no-sync")
	}
	cmd := s.as.command(ctx, filepath.Join(s.bin.dir, "initdb"), args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, strings.Join(strings.Fields(tail(out)), " "))
	}
	if err := os.Rename(half, s.dir); err != nil {
		return fmt.Errorf("initdb: %w", err)
	}
	return nil
}

// parameters are the server's settings. They are given at each start, so nothing of them is kept in the cluster.
func (s *Server) parameters() []string {
	set := map[string]string{
		"listen_addresses":        "",
		"port":                    "5432",
		"unix_socket_directories": `"` + strings.ReplaceAll(s.dir, `"`, `""`) + `"`,
		"unix_socket_permissions": "0700",
		"max_connections":         "300",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
		"log_line_prefix":         "%m [%p] %d %a ",
		"logging_collector":       "off",
		"shared_buffers":          "128MB",
	}
	if !s.durable {
		maps.Copy(set, map[string]string{
			"fsync":              "off",
			"synchronous_commit": "off",
			"full_page_writes":   "off",
			"autovacuum":         "off", // databases of tests do not live long enough to need it
			"wal_level":          "minimal",
			"max_wal_senders":    "0",
			"max_wal_size":       "4GB",
			"checkpoint_timeout": "1h",
			"jit":                "off",
		})
	}
	maps.Copy(set, s.settings)
	args := []string{"-D", s.dir}
	for _, k := range slices.Sorted(maps.Keys(set)) {
		args = append(args, "-c", k+"="+set[k])
	}
	return args
}

// launch starts the server and returns once it answers.
func (s *Server) launch(ctx context.Context) error {
	if s.pid() == 0 {
		if err := s.disown(); err != nil {
			return fmt.Errorf("start Postgres: %w", err)
		}
	}
	flags := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	if info, err := os.Stat(s.LogPath()); err == nil && info.Size() > maxLog {
		flags |= os.O_TRUNC
	}
	log, err := os.OpenFile(s.LogPath(), flags, 0o600)
	if err != nil {
		return fmt.Errorf("start Postgres: %w", err)
	}
	defer func() { _ = log.Close() }()
	before, err := log.Seek(0, 2)
	if err != nil {
		return fmt.Errorf("start Postgres: %w", err)
	}
	// It outlives the context, and us. Its output is a file, or whoever reads ours (go test) would wait for the server's end.
	cmd := s.as.command(context.WithoutCancel(ctx), filepath.Join(s.bin.dir, "postgres"), s.parameters()...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start Postgres: %w", err)
	}
	s.child = cmd.Process.Pid
	_ = cmd.Process.Release() // reaped by pid, with no goroutine that would wait for as long as the server lives
	err = s.answers(ctx)
	if err == nil {
		return nil
	}
	if s.child != 0 {
		_ = syscall.Kill(s.child, syscall.SIGQUIT)
		until, cancel := context.WithTimeout(context.WithoutCancel(ctx), lingering)
		defer cancel()
		for s.alive(s.child) && pause(until, lookEvery) == nil {
		}
	}
	said, _ := os.ReadFile(s.LogPath())
	said = said[min(before, int64(len(said))):]
	if strings.Contains(string(said), "postmaster.pid") || strings.Contains(string(said), "shared memory block") {
		err = errInUse
	}
	return fmt.Errorf("start Postgres: %w; its log ends with: %s", err, strings.Join(strings.Fields(tail(said)), " "))
}

// answers returns once the server takes connections, or with errExited when there is none to wait for.
func (s *Server) answers(ctx context.Context) error {
	config, err := pgconn.ParseConfig(s.URL("postgres"))
	if err != nil {
		return err
	}
	for {
		conn, err := pgconn.ConnectConfig(ctx, config)
		if err == nil {
			_ = conn.Close(ctx)
			return nil
		}
		// 57P03: it is still starting. Any other answer, as that it has no connection to spare, is one.
		var pg *pgconn.PgError
		if errors.As(err, &pg) && pg.Code != "57P03" {
			return nil
		}
		if s.child != 0 && !s.alive(s.child) || s.child == 0 && s.pid() == 0 {
			return errExited
		}
		if pause(ctx, lookEvery) != nil {
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// down signals the server and returns once it is gone. The cluster is locked.
func (s *Server) down(ctx context.Context, sig syscall.Signal) error {
	pid := s.pid()
	if pid == 0 {
		return nil
	}
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop Postgres, pid %d: %w", pid, err)
	}
	for s.alive(pid) {
		if err := pause(ctx, lookEvery/2); err != nil {
			return fmt.Errorf("stop Postgres, pid %d: %w", pid, err)
		}
	}
	return nil
}

// tail is the end of a program's output, enough to see what went wrong.
func tail(out []byte) string { return string(out[max(0, len(out)-1000):]) }

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
