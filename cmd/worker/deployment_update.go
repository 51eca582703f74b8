package main

import (
	"context"

	"github.com/jackc/pgx/v5"

	"berth/lifecycle"
)

type deploymentUpdate struct {
	output
	waiting
	pairs
	forgotten
	ID      id     `arg:"" name:"ID" help:"The id of the deployment."`
	Slots   slots  `name:"slots" placeholder:"N" help:"How many slots it asks for."`
	Version string `name:"version" placeholder:"VERSION" help:"Which version it runs: latest, such as 1.2.3, or a commit."`
}

// Run changes what the deployment asks for and shows it. What is not given stays as it is.
func (c *deploymentUpdate) Run(ctx context.Context, a *app) error {
	annotations, err := c.read()
	if err != nil {
		return err
	}
	return a.changing(ctx, func(ad *admin) error {
		return ad.change(ctx, a, c.ID.UUID, c.output, c.waiting, func(tx pgx.Tx) error {
			return ad.Update(ctx, tx, lifecycle.Change{Slots: int(c.Slots), Version: c.Version, Annotations: annotations, Forget: c.Forget}, c.ID.UUID)
		})
	})
}
