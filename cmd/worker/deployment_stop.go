package main

import (
	"context"

	"github.com/jackc/pgx/v5"
)

type deploymentStop struct {
	output
	waiting
	ID id `arg:"" name:"ID" help:"The id of the deployment."`
}

// Run stops the deployment and shows it.
func (c *deploymentStop) Run(ctx context.Context, a *app) error {
	return a.changing(ctx, func(ad *admin) error {
		return ad.change(ctx, a, c.ID.UUID, c.output, c.waiting, func(tx pgx.Tx) error { return ad.Stop(ctx, tx, c.ID.UUID) })
	})
}
