package main

import (
	"context"
	"time"
)

type deploymentWait struct {
	ID      id            `arg:"" name:"ID" help:"The id of the deployment."`
	For     string        `name:"for" placeholder:"STATE" required:"" enum:"running,stopped,deleted" help:"What to wait for: running, stopped or deleted."`
	Timeout time.Duration `name:"timeout" placeholder:"DURATION" default:"${wait_timeout}" help:"How long to wait at most. ${wait_timeout} if not given."`
}

// Validate refuses a time in which nothing could happen.
func (c *deploymentWait) Validate() error { return positive("--timeout", c.Timeout) }

// Run waits for the state.
func (c *deploymentWait) Run(ctx context.Context, a *app) error {
	return a.reading(ctx, func(ad *admin) error {
		d, err := ad.await(ctx, a, c.ID.UUID, c.For, c.Timeout)
		if err == nil {
			a.say("deployment %s is %s", c.ID, c.For+at(d))
		}
		return err
	})
}
