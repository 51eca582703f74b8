package main

import (
	"context"

	"github.com/jackc/pgx/v5"
)

type projectDelete struct {
	Project projectName `arg:"" name:"ORG/NAME" help:"The project, in any case."`
}

// Run lets the project go. There is nothing to show of it afterwards.
func (c *projectDelete) Run(ctx context.Context, a *app) error {
	return a.reading(ctx, func(ad *admin) error {
		p, err := ad.ProjectByName(ctx, ad.pool, c.Project.organization, c.Project.name)
		if err != nil {
			return err
		}
		if err := ad.tx(ctx, func(tx pgx.Tx) error { return ad.DeleteProject(ctx, tx, p.ID) }); err != nil {
			return err
		}
		a.say("project %s/%s is deleted", p.Organization, p.Name)
		return nil
	})
}
