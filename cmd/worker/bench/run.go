package bench

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"

	"github.com/jackc/pgx/v5"
)

// Settings are those of the server that the measurements run on, beside its defaults.
var Settings = map[string]string{"max_connections": "200", "shared_buffers": "512MB", "max_wal_size": "4GB"}

// Sizes of the measurements.
type Sizes struct {
	Pairs       int     // interleaved pairs, of which the median counts
	Deployments int     // in the backlog of each pair
	Noops       int     // in the backlog of each yardstick
	Rate        float64 // arrivals a second while latencies are measured
	Seconds     int     // of arrivals of each kind
	Slice       int     // seconds of each measurement of reservations
	Clients     int     // that reserve at a time
}

// Full is what figures are quoted from; Quick shows that the measurements run.
var (
	Full  = Sizes{Pairs: 5, Deployments: 5000, Noops: 50000, Rate: 50, Seconds: 20, Slice: 5, Clients: 64}
	Quick = Sizes{Pairs: 1, Deployments: 100, Noops: 1000, Rate: 50, Seconds: 2, Slice: 2, Clients: 8}
)

type measurement struct {
	name string
	run  func(ctx context.Context, url string, s Sizes, out io.Writer) error
}

var all = []measurement{{"backlog", Backlog}, {"latency", Latency}, {"reserve", Reservations}}

// Names lists what can be measured.
func Names() []string {
	names := make([]string, len(all))
	for i, m := range all {
		names[i] = m.name
	}
	return names
}

// Run makes the measurements named, or all, one after the other, each in a database of its own on one server. url gives the
// address of a database of that server.
func Run(ctx context.Context, url func(database string) string, names []string, s Sizes, out io.Writer) error {
	for _, m := range all {
		if len(names) > 0 && !slices.Contains(names, m.name) {
			continue
		}
		c, err := pgx.Connect(ctx, url("postgres"))
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		var version, fsync string
		err = c.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('fsync')`).Scan(&version, &fsync)
		if err == nil {
			_, err = c.Exec(ctx, `CREATE DATABASE `+pgx.Identifier{"bench_" + m.name}.Sanitize())
		}
		if closed := c.Close(ctx); err == nil {
			err = closed
		}
		if err != nil {
			return fmt.Errorf("make a database for %s: %w", m.name, err)
		}
		fmt.Fprintf(out, "%s: Postgres %s, fsync %s, %d processors\n", m.name, version, fsync, runtime.NumCPU())
		if err := m.run(ctx, url("bench_"+m.name), s, out); err != nil {
			return fmt.Errorf("measure %s: %w", m.name, err)
		}
	}
	return nil
}
