package db_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"berth/db"
	"berth/db/dbtest"
)

// secret has what a password may have that confuses readers of URLs.
const secret = "s3cr3t"

func TestOpenRefusesURLs(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ reason, url, want string }{
		"Empty":     {"nothing was set", "", "is not set"},
		"Blank":     {"or only blanks", " \n", "is not set"},
		"Scheme":    {"another database", "mysql://u:s3cr3t@h/db", "does not begin with postgres://"},
		"NoScheme":  {"a password without its URL", "u:s3cr3t@h/db", "does not begin with postgres://"},
		"Slash":     {"a / in the password makes the start of it a port", "postgres://u:12/s3cr3t@h/db", "%2F"},
		"At":        {"an @ in the password makes the end of it a host", "postgres://u:x@s3cr3t@h/db", "%40"},
		"Percent":   {"a % in the password is no escape", "postgres://u:%zzs3cr3t@h/db", "cannot be read"},
		"Port":      {"a port that is none", "postgres://u:s3cr3t@h:port/db", "cannot be read"},
		"SSLMode":   {"a setting that pgx refuses", "postgres://u:s3cr3t@h/db?sslmode=maybe", "sslmode is invalid"},
		"MaxConns":  {"a setting of the pool", "postgres://u:s3cr3t@h/db?pool_max_conns=many", "pool_max_conns"},
		"InQuery":   {"a password in the query", "postgres://h/db?password=s3cr3t&sslmode=maybe", "sslmode is invalid"},
		"KeyValue":  {"the other way to write it", "host=h password=s3cr3t sslmode=maybe", "cannot be read"},
		"KeyQuoted": {"with a quote left open", "host=h password='s3cr3t", "cannot be read"},
		"Question":  {"a ? in a password without a user", "postgres://u?s3cr3t@h/db", "%3F"},
		"TwoQuery":  {"a second ?", "postgres://h/db?sslmode=maybe?password=s3cr3t", "cannot be read"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := db.Open(t.Context(), tc.url, db.PoolOptions{Dial: func(context.Context, string, string) (net.Conn, error) {
				return nil, errors.New("nothing may be dialled for a URL that is refused")
			}})
			require.ErrorIs(t, err, db.ErrURL, tc.reason)
			require.ErrorContains(t, err, "DATABASE_URL", tc.reason)
			require.ErrorContains(t, err, tc.want, tc.reason)
			require.NotContains(t, err.Error(), secret)
			require.NotContains(t, err.Error(), "\n")
			for e := err; e != nil; e = errors.Unwrap(e) {
				var parse *pgconn.ParseConfigError
				require.NotErrorAs(t, e, &parse, "it holds the whole URL")
			}
		})
	}
}

func FuzzOpenKeepsSecrets(f *testing.F) {
	for _, seed := range []string{"u", "h:1/db", "h/db?sslmode=maybe", "%zz", "a@b", "[::1", "h/db?x=%zz", "'", "h:99999/db", "#", "?password="} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		if strings.Contains(before+after, secret) {
			return
		}
		// The password is between the last : of the user and the first @ after it, as people write it.
		for _, url := range []string{"postgres://" + before + ":" + secret + "@" + after, "postgres://" + before + "?password=" + secret + "&" + after} {
			pool, err := db.Open(t.Context(), url, db.PoolOptions{MaxConns: 1, Dial: func(context.Context, string, string) (net.Conn, error) {
				return nil, errors.New("refused")
			}})
			if err == nil {
				pool.Close()
				t.Fatal("nothing can have been reached")
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%q: %s", url, err)
			}
		}
	})
}

func TestOpenNobodyThere(t *testing.T) {
	t.Parallel()
	refused := errors.New("connection refused")
	_, err := db.Open(t.Context(), "postgres://u:s3cr3t@db.example.test:5433/berth?sslmode=prefer", db.PoolOptions{
		Dial: func(_ context.Context, _, addr string) (net.Conn, error) { return nil, refused },
	})
	var e *db.ConnectError
	require.ErrorAs(t, err, &e)
	require.ErrorContains(t, err, `connect to the database at "db.example.test:5433" (database "berth", user "u")`)
	require.ErrorContains(t, err, "check DATABASE_URL")
	require.NotContains(t, err.Error(), secret)
	require.NotContains(t, err.Error(), "\n")
}

// pgx tries with TLS and without, and tells of both.
func TestOpenSaysOnce(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	_, err := db.Open(t.Context(), "postgres://u:s3cr3t@h/berth?sslmode=prefer", db.PoolOptions{
		Dial: func(context.Context, string, string) (net.Conn, error) { return nil, refused },
	})
	require.EqualError(t, err, `connect to the database at "h:5432" (database "berth", user "u"): `+
		`dial tcp: connection refused: check DATABASE_URL, and that the server runs`)
	require.ErrorIs(t, err, refused)

	url, err := url.Parse(dbtest.NewEmpty(t).URL)
	require.NoError(t, err)
	query := url.Query()
	query.Set("sslmode", "prefer")
	url.Path, url.RawQuery = "/nobody_made_this", query.Encode()
	_, err = db.Open(t.Context(), url.String(), db.PoolOptions{})
	require.ErrorContains(t, err, `): FATAL: database "nobody_made_this" does not exist (SQLSTATE 3D000): check DATABASE_URL`)
}

func TestOpenTrimsURL(t *testing.T) {
	t.Parallel()
	d := dbtest.NewEmpty(t)
	pool, err := db.Open(t.Context(), d.URL+"\n", db.PoolOptions{MaxConns: 1})
	require.NoError(t, err, "a URL read from a file ends with a line break")
	pool.Close()
}

func TestOpenCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := db.Open(ctx, "postgres://u:s3cr3t@h/db", db.PoolOptions{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	require.ErrorIs(t, err, context.Canceled)
}

func TestOpenSettings(t *testing.T) {
	t.Parallel()
	d := dbtest.NewEmpty(t)
	tests := map[string]struct {
		reason  string
		options db.PoolOptions
		want    map[string]string
	}{
		"Admin": {
			reason: "an admin's calls wait for locks",
			want:   map[string]string{"lock_timeout": "0", "idle_in_transaction_session_timeout": "0", "application_name": "berth"},
		},
		"Worker": {
			reason:  "a worker is never in an admin's way",
			options: db.PoolOptions{Worker: true, Name: "worker-1", MaxConns: 3},
			want:    map[string]string{"lock_timeout": "500ms", "idle_in_transaction_session_timeout": "5s", "application_name": "worker-1", "enable_seqscan": "off", "jit": "off"},
		},
		"Queue": {
			reason:  "no plan outlives what it was made for",
			options: db.PoolOptions{Queue: true},
			want:    map[string]string{"lock_timeout": "0", "plan_cache_mode": "force_custom_plan", "enable_seqscan": "on"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dialled := make(chan struct{}, 100)
			tc.options.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				dialled <- struct{}{}
				return (&net.Dialer{}).DialContext(ctx, network, addr)
			}
			pool := d.Open(t, tc.options)
			require.NotEmpty(t, dialled, "connections are made by the dialer that was given")
			for setting, want := range tc.want {
				var got string
				require.NoError(t, pool.QueryRow(t.Context(), "SHOW "+setting).Scan(&got))
				require.Equal(t, want, got, "%s: %s", setting, tc.reason)
			}
			if tc.options.MaxConns > 0 {
				require.Equal(t, tc.options.MaxConns, pool.Config().MaxConns)
			}
		})
	}
}

// oldServer answers one connection as a server of a version does.
func oldServer(conn net.Conn, version string) error {
	defer func() { _ = conn.Close() }()
	b := pgproto3.NewBackend(conn, conn)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return err
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	b.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	b.Send(&pgproto3.BackendKeyData{SecretKey: make([]byte, 4)})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	for {
		if err := b.Flush(); err != nil {
			return err
		}
		msg, err := b.Receive()
		if err != nil {
			return err
		}
		switch msg.(type) {
		case *pgproto3.Query:
			b.Send(&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("v"), DataTypeOID: 23, DataTypeSize: 4, TypeModifier: -1}}})
			b.Send(&pgproto3.DataRow{Values: [][]byte{[]byte(version)}})
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		case *pgproto3.Terminate:
			return nil
		default:
			return errors.New("not what a check asks")
		}
	}
}

func TestOpenServerTooOld(t *testing.T) {
	t.Parallel()
	done := make(chan error, 1)
	_, err := db.Open(t.Context(), "postgres://u@h/db?sslmode=disable", db.PoolOptions{MaxConns: 1, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() { done <- oldServer(server, "140011") }()
		return client, nil
	}})
	require.ErrorIs(t, err, db.ErrServerTooOld)
	require.ErrorContains(t, err, "it is version 14.11")
	require.ErrorContains(t, err, "15 is the oldest")
	require.NoError(t, <-done)
}
