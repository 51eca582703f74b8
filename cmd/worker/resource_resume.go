package main

import (
	"context"

	"github.com/jackc/pgx/v5"
)

type resourceResume struct{ resourceArgument }

// Run ends the pause of the resource and shows it.
func (c *resourceResume) Run(ctx context.Context, a *app) error {
	return c.change(ctx, a, func(ad *admin, tx pgx.Tx) error { return ad.ResumeResource(ctx, tx, c.ID.UUID) })
}
