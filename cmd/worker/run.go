package main

import (
	"context"
	"errors"
	"fmt"
)

type runCommand struct {
	setFlags
	versionFlag
	listenFlag
	MaxWorkers  int     `name:"max-workers" placeholder:"N" default:"${max_workers}" help:"How many jobs of each provisioner are worked at once. ${max_workers} if not given."`
	RolloutRate float64 `name:"rollout-rate" placeholder:"N" default:"${rollout_rate}" help:"How many resources a second of each provisioner are brought to a configuration that changed, by all workers together. ${rollout_rate} if not given."`
}

// maxMaxWorkers is River's own bound.
const maxMaxWorkers = 10000

// Validate refuses what would take no jobs.
func (c *runCommand) Validate() error {
	if err := c.listenFlag.Validate(); err != nil {
		return err
	}
	if c.MaxWorkers < 1 || c.MaxWorkers > maxMaxWorkers {
		return fmt.Errorf("--max-workers: %d is out of range: use 1 to %d", c.MaxWorkers, maxMaxWorkers)
	}
	if !(c.RolloutRate >= minRolloutRate && c.RolloutRate <= maxRolloutRate) { // NaN is not
		return fmt.Errorf("--rollout-rate: %v is out of range: use %v to %v", c.RolloutRate, minRolloutRate, maxRolloutRate)
	}
	return nil
}

// Bounds of a rate. The least is one resource in a quarter of an hour.
const (
	minRolloutRate = 0.001
	maxRolloutRate = 10000
)

// Run takes jobs until a signal ends it. "ready" on stdout says that it takes them.
func (c *runCommand) Run(ctx context.Context, a *app) (err error) {
	f := a.configured(c.setFlags)
	f.options = c.options()
	if _, err := f.look(); err != nil { // before anything is connected
		return err
	}
	url, err := a.url()
	if err != nil {
		return err
	}
	logger := a.log("info")
	traces, err := a.traces(ctx, logger)
	if err != nil {
		return err
	}
	defer traces.Stop(context.WithoutCancel(ctx))
	server, err := c.serve(ctx, logger)
	if err != nil {
		return unlessStopped(ctx, err)
	}
	defer func() { err = errors.Join(err, endServing(ctx, server)) }()
	w, err := work(ctx, url, f, workOptions{maxWorkers: c.MaxWorkers, rolloutRate: c.RolloutRate, health: server, traces: traces}, logger)
	if err != nil {
		return unlessStopped(ctx, err)
	}
	fmt.Fprintln(a.stdout, "ready")
	<-ctx.Done()
	if server != nil {
		server.Stopping() // before anything stops
	}
	logger.Info("stopping: no more jobs are taken")
	if err := w.stop(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	logger.Info("stopped")
	return nil
}

// unlessStopped is the error, or none if the worker was told to stop before it had begun.
func unlessStopped(ctx context.Context, err error) error {
	if errors.Is(cancelled(ctx, err), errInterrupted) {
		return nil
	}
	return err
}
