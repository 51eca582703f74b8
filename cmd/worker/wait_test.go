package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"berth/lifecycle"
)

// A server that restarts in the meantime ends nothing.
func TestWaitReconnects(t *testing.T) {
	t.Parallel()
	b := seeded(t)
	id := uuid.NewString()
	b.ok("deployment", "create", "acme/web", "--id", id)
	done := make(chan result, 1)
	go func() {
		env := map[string]string{"DATABASE_URL": b.db.URL + "&application_name=waits"}
		done <- worker(context.WithoutCancel(t.Context()), env, "deployment", "wait", id, "--for", "running", "--timeout", patience.String())
	}()
	ended := func(query string) func() bool {
		return func() bool {
			return b.count(query+" FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'waits'") > 0
		}
	}
	for range 3 {
		require.Eventually(t, ended("SELECT count(*) FILTER (WHERE query LIKE '%deployment_details%' AND pg_terminate_backend(pid))"), patience, 5*time.Millisecond)
	}
	b.runs(id)
	r := <-done
	require.Zero(t, r.status, r.stderr)
	require.Contains(t, r.stderr, "is running at")
}

func TestDisconnected(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		err    error
		want   bool
	}{
		"None":       {"there is nothing to wait for", nil, false},
		"ShutDown":   {"the server lets its clients go", &pgconn.PgError{Code: "57P01"}, true},
		"Starting":   {"the server is not up yet", &pgconn.PgError{Code: "57P03"}, true},
		"Refused":    {"nobody listens there now", &net.OpError{Op: "dial", Err: errors.New("connection refused")}, true},
		"CutOff":     {"the server died in the middle of it", io.ErrUnexpectedEOF, true},
		"Closed":     {"the server died before it", pgconn.ErrConnClosed, true},
		"NoTable":    {"waiting makes no table", &pgconn.PgError{Code: "42P01"}, false},
		"NotFound":   {"that is an answer", lifecycle.ErrNotFound, false},
		"TimedOut":   {"a statement that takes too long will the next time", &pgconn.PgError{Code: "57014"}, false},
		"BadProgram": {"nor does waiting mend a program", errors.New("can't scan into dest[3]"), false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, disconnected(tc.err), tc.reason)
			if tc.err != nil {
				require.Equal(t, tc.want, disconnected(fmt.Errorf("find a deployment: %w", tc.err)), tc.reason)
			}
		})
	}
}
