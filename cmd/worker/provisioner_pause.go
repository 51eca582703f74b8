package main

import (
	"context"

	"github.com/jackc/pgx/v5"
)

type provisionerPause struct{ provisionerArgument }

// Run pauses the provisioner and shows it.
func (c *provisionerPause) Run(ctx context.Context, a *app) error {
	return c.change(ctx, a, func(ad *admin, tx pgx.Tx) error { return ad.PauseProvisioner(ctx, tx, c.Name) })
}
