package main

import (
	"context"

	"github.com/jackc/pgx/v5"
)

type provisionerResume struct{ provisionerArgument }

// Run ends the pause of the provisioner and shows it.
func (c *provisionerResume) Run(ctx context.Context, a *app) error {
	return c.change(ctx, a, func(ad *admin, tx pgx.Tx) error { return ad.ResumeProvisioner(ctx, tx, c.Name) })
}
