package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	pgxuuid "github.com/vgarvardt/pgx-google-uuid/v5"

	"berth/internal/defaults"
)

// minVersion is the oldest server that the schema runs on, as server_version_num.
const minVersion = 150000

// ErrServerTooOld says that the server is older than Postgres 15. The text around it names its version.
var ErrServerTooOld = errors.New("the Postgres server is too old")

// PoolOptions says what a pool is for. The zero value is a pool for an admin's calls.
type PoolOptions struct {
	MaxConns int32           // at most so many connections; 0 leaves it to the URL's pool_max_conns, else to pgx
	Worker   bool            // sessions wait for a lock only briefly, are ended when they stop inside a transaction, and are read committed
	Queue    bool            // for River's own statements: planned anew each time
	Brief    bool            // for a few statements: none is prepared, so a pooler in transaction mode may stand in between
	Name     string          // shown as application_name; empty is "berth"
	Tracer   pgx.QueryTracer // told of each statement; nil for none
	Dial     pgconn.DialFunc // makes the connections, and looks names up; nil for the network
}

// Open returns a pool of connections to the database of a Postgres URL, or of a list of key=value pairs. It connects once, for
// as long as defaults.ConnectTimeout, so that a wrong URL is told at once and not by the first query. No error of it holds the
// password. It may be called again; the caller closes the pool.
func Open(ctx context.Context, url string, o PoolOptions) (*pgxpool.Pool, error) {
	config, err := parse(url)
	if err != nil {
		return nil, err
	}
	if o.MaxConns > 0 {
		config.MaxConns = o.MaxConns
	}
	params := config.ConnConfig.RuntimeParams
	params["application_name"] = cmp.Or(o.Name, params["application_name"], "berth")
	settings := o.settings()
	maps.Copy(params, settings)
	if o.Brief && config.ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	if o.Tracer != nil {
		config.ConnConfig.Tracer = o.Tracer
	}
	if o.Dial != nil {
		config.ConnConfig.DialFunc = o.Dial
		config.ConnConfig.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = defaults.ConnectTimeout
	}
	// Without it, ids go through text, both ways.
	config.AfterConnect = func(_ context.Context, c *pgx.Conn) error {
		pgxuuid.Register(c.TypeMap())
		return nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	if err := check(ctx, pool, settings); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// settings are those of each session, as the server shows them.
func (o PoolOptions) settings() map[string]string {
	settings := map[string]string{}
	if o.Worker {
		settings["lock_timeout"] = milliseconds(defaults.LockTimeout)
		settings["idle_in_transaction_session_timeout"] = milliseconds(defaults.IdleInTransaction)
		settings["default_transaction_isolation"] = "read committed" // what decides is read after the lock, and not before
		// A statement is planned once a session: planning one anew each time takes as long as running it. A plan that was made
		// when a table was empty would read all of it later, so the planner has no choice but the keys.
		settings["plan_cache_mode"] = "force_generic_plan"
		for _, s := range []string{"enable_seqscan", "enable_hashjoin", "enable_mergejoin"} {
			settings[s] = "off"
		}
	}
	if o.Worker || o.Queue {
		// What reads a whole table counts as dear where that is discouraged, and is compiled, each time: a tenth of a second.
		settings["jit"] = "off"
	}
	if o.Queue {
		// The queue is empty one minute and full the next. With the plan of the one a fetch from the other takes a second.
		settings["plan_cache_mode"] = "force_custom_plan"
	}
	return settings
}

// check connects once and looks at the server's version, and at whether a session has its settings.
func check(ctx context.Context, pool *pgxpool.Pool, settings map[string]string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, defaults.ConnectTimeout, fmt.Errorf("no answer within %v", defaults.ConnectTimeout))
	defer cancel()
	var version int
	err := pool.QueryRow(ctx, "SELECT current_setting('server_version_num')::int", pgx.QueryExecModeSimpleProtocol).Scan(&version)
	if err != nil {
		if pooler := refusesSettings(ctx, pool, settings, err); pooler != nil {
			return pooler
		}
	} else if version >= minVersion {
		err = requireSettings(ctx, pool, settings)
	}
	var pooler *PoolerError
	switch {
	case errors.As(err, &pooler):
		return pooler
	case err != nil && context.Cause(ctx) != nil:
		return &ConnectError{at: at(pool), err: context.Cause(ctx)}
	case err != nil:
		return &ConnectError{at: at(pool), err: err}
	case version < minVersion:
		return fmt.Errorf("%w: it is version %d.%d, and 15 is the oldest that will do: upgrade it, or set DATABASE_URL to a newer one",
			ErrServerTooOld, version/10000, version%10000)
	}
	return nil
}

// ConnectError says that the server did not let us in, or was not there. Trying again later may help.
type ConnectError struct {
	at  string
	err error
}

// Error returns the text, on one line.
func (e *ConnectError) Error() string {
	text := strings.Join(strings.Fields(essence(e.err)), " ")
	return fmt.Sprintf("connect to the database at %s: %s: check DATABASE_URL, and that the server runs", e.at, text)
}

// essence is what went wrong, once. pgx tells of each attempt, with TLS and without, in full; what a server says in so many words
// beats an attempt that did not come so far.
func essence(err error) string {
	var said, rest []string
	for _, e := range attempts(err) {
		var answer *pgconn.PgError
		var lookup *net.DNSError
		var network *net.OpError
		text := &rest
		switch {
		case errors.As(e, &answer):
			e, text = answer, &said
		case errors.As(e, &lookup):
			e = lookup
		case errors.As(e, &network):
			e = network
		}
		if !slices.Contains(*text, e.Error()) {
			*text = append(*text, e.Error())
		}
	}
	if len(said) == 0 {
		said = rest
	}
	return strings.Join(said, "; ")
}

// attempts are the errors that were joined to this one.
func attempts(err error) []error {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, attempts(e)...)
	}
	return all
}

// Unwrap returns what went wrong.
func (e *ConnectError) Unwrap() error { return e.err }

// at names a database without its password.
func at(pool *pgxpool.Pool) string {
	c := pool.Config().ConnConfig
	host := c.Host
	if !strings.HasPrefix(host, "/") {
		host += ":" + strconv.Itoa(int(c.Port))
	}
	return fmt.Sprintf("%q (database %q, user %q)", host, c.Database, c.User)
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// unhurried are the settings of work that may wait for locks and take its time, whatever the server's defaults are. It waits for the
// longest time that there is: unlike 0 that is nobody's default, so it shows whether a session has its settings.
var unhurried = map[string]string{"lock_timeout": "2147483647", "statement_timeout": "0", "idle_in_transaction_session_timeout": "0"}

// patient is a pool's configuration for such work.
func patient(pool *pgxpool.Pool, maxConns int32) *pgxpool.Config {
	c := pool.Config()
	c.MaxConns, c.MinConns, c.MinIdleConns = maxConns, 0, 0
	maps.Copy(c.ConnConfig.RuntimeParams, unhurried)
	c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // nothing is prepared: the tables change under it
	return c
}
