package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"berth/db/dbtest"
)

// passed are the settings that PgBouncer keeps for its clients. Others it refuses, or leaves out if it is told to.
var passed = []string{"user", "database", "application_name", "client_encoding", "datestyle", "timezone", "standard_conforming_strings"}

// pooler is a pooler in transaction mode, as PgBouncer 1.18 is: each transaction gets a session that others had before, and here never
// the one that the client had last.
type pooler struct {
	url      string // of the server, as key=value pairs
	lenient  bool   // leaves settings out that it does not keep
	listener net.Listener
	clients  sync.WaitGroup

	mu   sync.Mutex
	free []*pgconn.HijackedConn // the one that is taken next stands first
}

func newPooler(t *testing.T, server string, lenient bool) (url string) {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &pooler{url: server, lenient: lenient, listener: l}
	ctx, cancel := context.WithCancel(context.Background())
	for range 3 {
		p.put(p.connect(ctx, t))
	}
	p.clients.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.clients.Go(func() {
				stop := context.AfterFunc(ctx, func() { _ = c.Close() })
				defer stop()
				defer func() { _ = c.Close() }()
				if err := p.serve(c); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("pooler: %v", err)
				}
			})
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
		p.clients.Wait()
		for _, s := range p.free {
			_ = s.Conn.Close()
		}
	})
	return fmt.Sprintf("postgres://app@%s/app?sslmode=disable", l.Addr())
}

func (p *pooler) connect(ctx context.Context, t *testing.T) *pgconn.HijackedConn {
	t.Helper()
	c, err := pgconn.Connect(ctx, p.url)
	require.NoError(t, err)
	s, err := c.Hijack()
	require.NoError(t, err)
	return s
}

func (p *pooler) put(s *pgconn.HijackedConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, s)
}

// take gives the session that was free for longest.
func (p *pooler) take() (*pgconn.HijackedConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) == 0 {
		return nil, errors.New("no session is free")
	}
	s := p.free[0]
	p.free = p.free[1:]
	return s, nil
}

// serve is one client's connection.
func (p *pooler) serve(conn net.Conn) error {
	client := pgproto3.NewBackend(conn, conn)
	first, err := client.ReceiveStartupMessage()
	if err != nil {
		return err
	}
	startup, ok := first.(*pgproto3.StartupMessage)
	if !ok {
		return nil // a cancelled query has ended by the time that we look
	}
	for name := range startup.Parameters {
		if !slices.Contains(passed, strings.ToLower(name)) && !p.lenient {
			client.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "08P01", Message: "unsupported startup parameter: " + name})
			return client.Flush()
		}
	}
	client.Send(&pgproto3.AuthenticationOk{})
	for name, value := range map[string]string{"server_version": "15.0", "client_encoding": "UTF8", "standard_conforming_strings": "on", "integer_datetimes": "on"} {
		client.Send(&pgproto3.ParameterStatus{Name: name, Value: value})
	}
	client.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: make([]byte, 4)})
	client.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if err := client.Flush(); err != nil {
		return err
	}
	for {
		over, err := p.transaction(client)
		if over || err != nil {
			return err
		}
	}
}

// transaction takes a session for as long as one lasts.
func (p *pooler) transaction(client *pgproto3.Backend) (over bool, err error) {
	var s *pgconn.HijackedConn
	for {
		asked := 0 // times that the server will say that it is ready
		for asked == 0 {
			m, err := client.Receive()
			if err != nil {
				if s != nil {
					_ = s.Conn.Close()
				}
				return true, err
			}
			if _, ends := m.(*pgproto3.Terminate); ends {
				if s != nil {
					_ = s.Conn.Close()
				}
				return true, nil
			}
			if s == nil {
				if s, err = p.take(); err != nil {
					return true, err
				}
			}
			s.Frontend.Send(m)
			switch m.(type) {
			case *pgproto3.Query, *pgproto3.Sync:
				asked++
			case *pgproto3.Flush:
				return true, errors.New("a client that asks for a part of an answer is not for this pooler")
			}
		}
		if err := s.Frontend.Flush(); err != nil {
			return true, err
		}
		for ready := false; !ready; {
			m, err := s.Frontend.Receive()
			if err != nil {
				return true, err
			}
			client.Send(m)
			if r, is := m.(*pgproto3.ReadyForQuery); is {
				ready = true
				if r.TxStatus == 'I' {
					p.put(s)
					return false, client.Flush()
				}
			}
		}
		if err := client.Flush(); err != nil {
			return true, err
		}
	}
}

// bouncer starts a PgBouncer in transaction mode, from a directory and on a socket of its own.
func bouncer(t *testing.T, program, server string, lenient bool) (url string) {
	t.Helper()
	dir := dbtest.Dir(t)
	require.NoError(t, os.Chmod(dir, 0o777)) // for whom it runs as
	c, err := pgx.ParseConfig(server)
	require.NoError(t, err)
	to := fmt.Sprintf("host=%s port=%d user=%s dbname=%s", c.Host, c.Port, c.User, c.Database)
	if c.Password != "" {
		to += fmt.Sprintf(" password='%s'", strings.ReplaceAll(c.Password, "'", "''"))
	}
	ini := "[databases]\napp = " + to + "\n[pgbouncer]\nunix_socket_dir = " + dir + "\nlisten_port = 6432\nauth_type = any\npool_mode = transaction\n" +
		"default_pool_size = 3\nserver_round_robin = 1\nlogfile = " + dir + "/log\n"
	if lenient {
		ini += "ignore_startup_parameters = lock_timeout, idle_in_transaction_session_timeout, default_transaction_isolation, plan_cache_mode, " +
			"enable_seqscan, enable_hashjoin, enable_mergejoin, jit, statement_timeout\n"
	}
	file := filepath.Join(dir, "pgbouncer.ini")
	require.NoError(t, os.WriteFile(file, []byte(ini), 0o644))
	args := []string{"-q", file}
	if os.Geteuid() == 0 {
		args = append([]string{"-u", "nobody"}, args...)
		for _, name := range []string{"nobody", "postgres"} {
			if _, err := user.Lookup(name); err == nil {
				args[1] = name
			}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Stderr = "/", os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cancel(); _ = cmd.Wait() })
	url = "postgres://app@/app?host=" + dir + "&port=6432"
	require.Eventually(t, func() bool {
		c, err := pgx.Connect(t.Context(), url)
		if err == nil {
			_ = c.Close(t.Context())
		}
		return err == nil
	}, patience, 10*time.Millisecond, "%s does not start", program)
	return url
}

// poolers are those that a test is run with: one of our own, and PgBouncer where it is installed.
func poolers(t *testing.T) map[string]func(t *testing.T, server string, lenient bool) string {
	t.Helper()
	all := map[string]func(*testing.T, string, bool) string{"of our own": newPooler}
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if program, err := exec.LookPath(name); err == nil {
			all["PgBouncer"] = func(t *testing.T, server string, lenient bool) string { return bouncer(t, program, server, lenient) }
		}
	}
	return all
}

// What needs a session of its own refuses a pooler in transaction mode, whether it refuses settings or leaves them out, with a line
// that says so, and does nothing.
func TestPoolerRefused(t *testing.T) {
	t.Parallel()
	for name, start := range poolers(t) {
		for how, lenient := range map[string]bool{"refuses settings": false, "leaves settings out": true} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				b.env = pool(t, 10, newGate(t).URL)
				b.env["DATABASE_URL"] = start(t, b.db.URL, lenient)
				for _, args := range [][]string{{"run"}, {"migrate", "up"}, {"migrate", "down", "--discard"}} {
					said := b.refused(exitFailed, args...)
					require.Contains(t, said, "a pooler stands in between", "worker %s", args)
					require.Contains(t, said, "name the server itself in DATABASE_URL")
				}
				require.Zero(t, b.count("SELECT count(*) FROM berth.workers"))
				require.Zero(t, b.count("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"))
			})
		}
	}
}

// An admin's commands go through a pooler in transaction mode, again and again, and many at once.
func TestPoolerForAdmins(t *testing.T) {
	t.Parallel()
	for name, start := range poolers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.provisioner("static-example")
			b.env["DATABASE_URL"] = start(t, b.db.URL, false)
			b.ok("migrate", "status")
			b.ok("org", "create", "acme")
			b.ok("project", "create", "acme/web")
			for range 3 {
				b.ok("deployment", "create", "acme/web", "--id", someID)
				b.ok("deployment", "update", someID, "--slots", "2")
				b.ok("deployment", "stop", someID)
				b.ok("deployment", "start", someID)
				b.ok("deployment", "restart", someID)
				b.ok("deployment", "show", someID)
				b.ok("deployment", "events", someID)
				b.ok("deployment", "list", "--state", "pending")
				b.ok("org", "show", "acme")
				b.ok("project", "list")
				b.ok("provisioner", "list")
			}
			b.ok("deployment", "delete", someID)
			require.Equal(t, 1, b.count("SELECT count(*) FROM berth.deployments WHERE desired_state = 'deleted'"))
		})
	}
}

// A statement that was prepared in one session is not there in another: these poolers do what Brief is for.
func TestPoolerLosesPreparedStatements(t *testing.T) {
	t.Parallel()
	for name, start := range poolers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := start(t, dbtest.New(t).URL, false)
			var clients []*pgx.Conn
			for range 2 {
				c, err := pgx.Connect(t.Context(), url)
				require.NoError(t, err)
				t.Cleanup(func() { _ = c.Close(context.Background()) })
				clients = append(clients, c)
			}
			n := 0
			require.Eventually(t, func() bool {
				n++
				_, err := clients[n%2].Exec(t.Context(), "SELECT count(*) FROM berth.deployments WHERE state = $1", "running")
				var answer *pgconn.PgError
				return errors.As(err, &answer) && (answer.Code == "26000" || answer.Code == "42P05")
			}, patience, time.Millisecond)
		})
	}
}
