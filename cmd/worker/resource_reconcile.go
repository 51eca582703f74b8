package main

import (
	"context"

	"github.com/jackc/pgx/v5"
)

type resourceReconcile struct {
	output
	ID id `arg:"" name:"ID" help:"The id of the resource."`
}

// Run has the resource looked at again now, shows how it stands, and says what keeps it from being looked at.
func (c *resourceReconcile) Run(ctx context.Context, a *app) error {
	return a.reading(ctx, func(ad *admin) error {
		if err := ad.tx(ctx, func(tx pgx.Tx) error { return ad.Reconcile(ctx, tx, c.ID.UUID) }); err != nil {
			return err
		}
		places, err := ad.PlacesOf(ctx, ad.pool, c.ID.UUID)
		if err != nil {
			return err
		}
		at := ad.provisionersNow(ctx)
		for _, p := range places {
			if held := at.held(p.Resource); held.words != "" {
				a.say("resource %s at %s: %s: %s", c.ID, p.Provisioner, held.words, held.remedy)
			} else {
				a.say("resource %s at %s is looked at again now", c.ID, p.Provisioner)
			}
		}
		return ad.showResource(ctx, a, c.output, c.ID.UUID)
	})
}
