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
	Only  []string `name:"only" placeholder:"WHAT" help:"Measure only these: ${bench_names}. All if not given."`
	Quick bool     `name:"quick" help:"Small sizes, to see that it runs. Its figures mean nothing."`
	Fsync bool     `name:"fsync" negatable:"" default:"true" help:"Whether the private Postgres flushes its log to disk."`
}

// Validate refuses what is not measured.
func (c *benchCommand) Validate() error {
	for _, name := range c.Only {
		if !slices.Contains(bench.Names(), name) {
			return fmt.Errorf("--only: %q is not measured: choose of %s", name, strings.Join(bench.Names(), ", "))
		}
	}
	return nil
}

// Run measures on a server of its own: the measurements empty tables.
func (c *benchCommand) Run(ctx context.Context, a *app) (err error) {
	server, err := postgres.Start(ctx, postgres.Options{Name: "bench", Temporary: true, Durable: c.Fsync, Settings: bench.Settings})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	sizes := bench.Full
	if c.Quick {
		sizes = bench.Quick
	}
	return bench.Run(ctx, server.URL, c.Only, sizes, a.stdout)
}
