package main

import (
	"context"

	"github.com/jackc/pgx/v5"
)

type resourcePause struct{ resourceArgument }

// Run pauses the resource and shows it.
func (c *resourcePause) Run(ctx context.Context, a *app) error {
	return c.change(ctx, a, func(ad *admin, tx pgx.Tx) error { return ad.PauseResource(ctx, tx, c.ID.UUID) })
}
