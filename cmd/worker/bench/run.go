package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

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

	// On a cluster.
	Each    int // deployments made one after another, and as many by the yardstick
	Kubectl int // of which so many are made once more, by kubectl
	Burst   int // deployments made at once
	Plain   int // of the yardstick, for its rate
	Watched int // deployments that are watched and observed
}

// Full is what figures are quoted from; Quick shows that the measurements run.
var (
	Full = Sizes{Pairs: 5, Deployments: 5000, Noops: 50000, Rate: 50, Seconds: 20, Slice: 5, Clients: 64,
		Each: 50, Kubectl: 10, Burst: 200, Plain: 30, Watched: 2000}
	Quick = Sizes{Pairs: 1, Deployments: 100, Noops: 1000, Rate: 50, Seconds: 2, Slice: 2, Clients: 8,
		Each: 2, Kubectl: 1, Burst: 5, Plain: 2, Watched: 10}
)

// A measurement is made on Postgres alone, or on a cluster too.
type measurement struct {
	name  string
	alone func(ctx context.Context, url string, s Sizes, out io.Writer) error
	there func(ctx context.Context, g *ground, url string, s Sizes, out io.Writer) error
	least bool // with the smallest templates only
}

var all = []measurement{
	{name: "backlog", alone: Backlog}, {name: "latency", alone: Latency}, {name: "reserve", alone: Reservations},
	{name: "cluster-latency", there: clusterLatency}, {name: "cluster-rate", there: clusterRate}, {name: "cluster-watch", there: clusterWatch, least: true},
}

// Names lists what can be measured.
func Names() []string { return namesOf(func(measurement) bool { return true }) }

// OnCluster lists what of it is measured on a cluster.
func OnCluster() []string { return namesOf(func(m measurement) bool { return m.there != nil }) }

func namesOf(which func(measurement) bool) (names []string) {
	for _, m := range all {
		if which(m) {
			names = append(names, m.name)
		}
	}
	return names
}

// Run makes the measurements named, or all, one after the other, each in a database of its own on one server. url gives the
// address of a database of that server. On a cluster only what is measured on one is; without one that is left out, and it is said.
// So what is measured on Postgres alone has the machine to itself.
func Run(ctx context.Context, url func(database string) string, c *Cluster, names []string, s Sizes, out io.Writer) error {
	var left []string
	for _, m := range all {
		if len(names) > 0 && !slices.Contains(names, m.name) {
			continue
		}
		var err error
		switch {
		case m.there != nil && c != nil:
			err = m.onCluster(ctx, url, c, s, out)
		case m.there != nil:
			left = append(left, m.name)
		case c == nil:
			err = m.onPostgres(ctx, url, s, out)
		}
		if err != nil {
			return fmt.Errorf("measure %s: %w", m.name, err)
		}
	}
	if len(left) > 0 {
		fmt.Fprintf(out, "%s: not measured: give --kubeconfig FILE with a cluster, or run make bench-cluster, which starts one\n", strings.Join(left, ", "))
	}
	return nil
}

func (m measurement) onPostgres(ctx context.Context, url func(string) string, s Sizes, out io.Writer) error {
	name := "bench_" + m.name
	server, err := newDatabase(ctx, url, name)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %s, %d processors\n", m.name, server, runtime.NumCPU())
	return m.alone(ctx, url(name), s, out)
}

// onCluster measures in a namespace for each set of templates, which goes whatever comes of it.
func (m measurement) onCluster(ctx context.Context, url func(string) string, c *Cluster, s Sizes, out io.Writer) error {
	sets := c.sets
	if m.least {
		sets = sets[len(sets)-1:]
	}
	for i, templates := range sets {
		name := fmt.Sprintf("bench_%s_%d", strings.ReplaceAll(m.name, "-", "_"), i)
		server, err := newDatabase(ctx, url, name)
		if err != nil {
			return err
		}
		g, err := c.ground(ctx, templates)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s of %s: Kubernetes %s at %s, namespace %s, %s, %d processors\n", m.name, templates.name, c.version, c.server, g.namespace, server, runtime.NumCPU())
		err = m.there(ctx, g, url(name), s, out)
		if err = errors.Join(err, g.clear(ctx, err == nil)); err != nil {
			return err
		}
	}
	return nil
}

// newDatabase makes one and says what the server is.
func newDatabase(ctx context.Context, url func(string) string, name string) (server string, err error) {
	c, err := pgx.Connect(ctx, url("postgres"))
	if err != nil {
		return "", fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = c.Close(ctx) }()
	var version, fsync string
	err = c.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('fsync')`).Scan(&version, &fsync)
	if err == nil {
		_, err = c.Exec(ctx, `CREATE DATABASE `+pgx.Identifier{name}.Sanitize())
	}
	if err != nil {
		return "", fmt.Errorf("make database %s: %w", name, err)
	}
	return fmt.Sprintf("Postgres %s, fsync %s", version, fsync), nil
}
