package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"berth/cmd/worker/bench"
	"berth/internal/postgres"
)

type benchCommand struct {
	Only       []string `name:"only" placeholder:"WHAT" help:"Measure only these: ${bench_names}. All if not given."`
	Quick      bool     `name:"quick" help:"Small sizes, to see that it runs. Its figures mean nothing."`
	Fsync      bool     `name:"fsync" negatable:"" default:"true" help:"Whether the private Postgres flushes its log to disk."`
	Kubeconfig string   `name:"kubeconfig" placeholder:"FILE" help:"Measure what is measured on a cluster, and only that, on the current context of this file. If not given all else is measured."`
	Namespace  string   `name:"namespace" placeholder:"NAME" help:"A namespace there to measure in; what is made in it is removed. If not given one is made for each measurement, and deleted."`
	Templates  string   `name:"templates" placeholder:"DIR" default:"${bench_templates}" help:"The templates of a deployment there, as *.yaml. ${bench_templates} if not given."`
}

// Validate refuses what is not measured, and what would not be used.
func (c *benchCommand) Validate() error {
	for _, name := range c.Only {
		switch {
		case !slices.Contains(bench.Names(), name):
			return fmt.Errorf("--only: %q is not measured: choose of %s", name, strings.Join(bench.Names(), ", "))
		case c.Kubeconfig == "" && slices.Contains(bench.OnCluster(), name):
			return fmt.Errorf("--only: %q is measured on a cluster: give --kubeconfig FILE too, or run make bench-cluster, which starts one", name)
		case c.Kubeconfig != "" && !slices.Contains(bench.OnCluster(), name):
			return fmt.Errorf("--only: %q is not measured on a cluster: leave --kubeconfig out", name)
		}
	}
	if c.Namespace != "" && c.Kubeconfig == "" {
		return fmt.Errorf("--namespace: %q is one of a cluster, and none is named: give --kubeconfig FILE too", c.Namespace)
	}
	return nil
}

// Run measures on a server of its own: the measurements empty tables.
func (c *benchCommand) Run(ctx context.Context, a *app) (err error) {
	var cluster *bench.Cluster
	if c.Kubeconfig != "" { // before anything takes time
		if cluster, err = bench.OpenCluster(ctx, bench.ClusterOptions{Kubeconfig: c.Kubeconfig, Namespace: c.Namespace, Templates: c.Templates}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, cluster.Close()) }()
	}
	server, err := postgres.Start(ctx, postgres.Options{Name: "bench", Temporary: true, Durable: c.Fsync, Settings: bench.Settings})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	sizes := bench.Full
	if c.Quick {
		sizes = bench.Quick
	}
	return bench.Run(ctx, server.URL, cluster, c.Only, sizes, a.stdout)
}
