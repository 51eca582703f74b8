//go:build unix && !aix && !solaris

package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"berth/internal/filelock"
)

// stopBound is how long a server may take to stop; it ends its sessions at once, so only a last checkpoint takes time.
const stopBound = 30 * time.Second

// Server is a running cluster that this process uses. Its methods may be called from several goroutines.
type Server struct {
	bin       binaries
	as        account
	dir       string // data directory, with the socket in it
	durable   bool
	temporary bool
	settings  map[string]string
	logf      func(string, ...any)

	mu    sync.Mutex
	users *os.File // shared lock, nil once closed
	child int      // the postmaster when this process started it, to be reaped
}

var temporaries atomic.Int64

// Start joins the cluster that the options name, and makes and starts it first where needed. It may be called again: each
// Server is a user of its own. It takes 2 s at most where binaries are at hand, and tries a download for 10 s where there
// are none. The error that nothing was found is ErrNotFound and says what to do.
func Start(ctx context.Context, o Options) (*Server, error) {
	as, err := serverAccount()
	if err != nil {
		return nil, err
	}
	h, err := home()
	if err != nil {
		return nil, err
	}
	f := &finder{env: os.Getenv, installed: installed, as: as, cache: filepath.Join(h, "postgres"), bound: downloadBound}
	return start(ctx, o, f, h)
}

func start(ctx context.Context, o Options, f *finder, home string) (*Server, error) {
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	begun := time.Now()
	bin, err := f.find(ctx)
	if err != nil {
		return nil, err
	}
	o.Logf("Postgres %d in %s (%s), found in %v", bin.major, bin.dir, bin.source, time.Since(begun).Round(time.Millisecond))
	dir, err := base(o, home)
	if err != nil {
		return nil, err
	}
	if err := f.as.canEnter(dir); err != nil {
		return nil, err
	}
	name := o.Name
	if o.Temporary {
		name = temporaryPrefix + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(temporaries.Add(1), 10) + "-"
	}
	s := &Server{bin: bin, as: f.as, dir: filepath.Join(dir, name+strconv.Itoa(bin.major)), durable: o.Durable,
		temporary: o.Temporary, settings: o.Settings, logf: o.Logf}
	if err := checkSocketDir(s.dir); err != nil {
		return nil, err
	}
	if o.Temporary {
		sweep(ctx, dir, o.Logf)
	}
	if err := s.join(ctx); err != nil {
		if o.Temporary {
			err = errors.Join(err, s.remove())
		}
		return nil, err
	}
	return s, nil
}

// join makes this process a user of the cluster, which runs afterwards.
func (s *Server) join(ctx context.Context) error {
	held, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = held.Close() }()
	users, err := filelock.Share(s.dir + ".users") // nobody has the exclusive one for longer than a look
	if err != nil {
		return err
	}
	if err := s.up(ctx); err != nil {
		_ = users.Close()
		return err
	}
	s.users = users
	return nil
}

// lock keeps others from starting and stopping the cluster.
func (s *Server) lock(ctx context.Context) (*os.File, error) {
	held, err := filelock.Lock(ctx, s.dir+".lock", nil)
	if err != nil {
		return nil, fmt.Errorf("wait for another process that starts or stops Postgres: %w", err)
	}
	return held, nil
}

// URL is the connection string of a database of the cluster. It holds no password.
func (s *Server) URL(db string) string {
	q := url.Values{"host": {s.dir}, "port": {"5432"}, "user": {"postgres"}, "sslmode": {"disable"}}
	return "postgres:///" + url.PathEscape(db) + "?" + q.Encode()
}

// LogPath is the file of the server's log. It is kept over restarts.
func (s *Server) LogPath() string { return filepath.Join(s.dir, "server.log") }

// Pid is the process id of the postmaster, 0 when none runs.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pid()
}

// Restart stops the server and starts it again. Immediate stops it as a crash does, with no checkpoint, so that it recovers
// as it starts. It is for clusters that no other process shares; there every other user is cut off without being asked.
func (s *Server) Restart(ctx context.Context, immediate bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == nil {
		return errors.New("restart Postgres: it was closed")
	}
	held, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = held.Close() }()
	sig := syscall.SIGINT
	if immediate {
		sig = syscall.SIGQUIT
	}
	if err := s.down(ctx, sig); err != nil {
		return err
	}
	return s.up(ctx)
}

// Close leaves the cluster and stops it when nobody else uses it. It may be called again. After an error the server may
// still run; the next process that joins the cluster takes it over.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), stopBound, fmt.Errorf("not stopped within %v", stopBound))
	defer cancel()
	users := s.users
	s.users = nil
	defer func() { _ = users.Close() }()
	held, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = held.Close() }()
	if last, err := filelock.Try(users); err != nil || !last {
		return err // nil: others use it
	}
	begun := time.Now()
	sig := syscall.SIGINT
	if s.temporary {
		sig = syscall.SIGQUIT // its data goes with it
	}
	if err := s.down(ctx, sig); err != nil {
		return err
	}
	s.logf("Postgres stopped in %v", time.Since(begun).Round(time.Millisecond))
	if s.temporary {
		return s.remove()
	}
	return nil
}

// remove deletes the cluster, which has to be stopped and locked.
func (s *Server) remove() error {
	var errs []error
	for _, suffix := range []string{"", ".init", ".users", ".lock"} {
		errs = append(errs, os.RemoveAll(s.dir+suffix))
	}
	return errors.Join(errs...)
}
