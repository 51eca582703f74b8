package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"berth/lifecycle"
)

type deploymentDelete struct {
	waiting
	ID id `arg:"" name:"ID" help:"The id of the deployment."`
}

// Run has the deployment go. There is nothing to show of it afterwards.
func (c *deploymentDelete) Run(ctx context.Context, a *app) error {
	return a.changing(ctx, func(ad *admin) error {
		err := ad.tx(ctx, func(tx pgx.Tx) error { return ad.Delete(ctx, tx, c.ID.UUID) })
		if err != nil {
			return err
		}
		if c.Wait == 0 {
			_, err := ad.Get(ctx, ad.pool, c.ID.UUID)
			switch {
			case errors.Is(err, lifecycle.ErrNotFound):
				a.say("deployment %s is deleted", c.ID)
			case err != nil:
				return err
			default:
				a.say("deployment %s is being deleted", c.ID)
			}
			return nil
		}
		_, err = ad.await(ctx, a, c.ID.UUID, lifecycle.Deleted, c.Wait)
		if err == nil {
			a.say("deployment %s is deleted", c.ID)
		}
		return err
	})
}
