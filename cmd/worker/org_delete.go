package main

import (
	"context"

	"github.com/jackc/pgx/v5"
)

type orgDelete struct {
	Name string `arg:"" name:"NAME" help:"Its name, in any case."`
}

// Run lets the organization go, its projects included. There is nothing to show of it afterwards.
func (c *orgDelete) Run(ctx context.Context, a *app) error {
	return a.reading(ctx, func(ad *admin) error {
		o, err := ad.OrganizationByName(ctx, ad.pool, c.Name)
		if err != nil {
			return err
		}
		if err := ad.tx(ctx, func(tx pgx.Tx) error { return ad.DeleteOrganization(ctx, tx, o.ID) }); err != nil {
			return err
		}
		a.say("organization %s is deleted", o.Name)
		return nil
	})
}
