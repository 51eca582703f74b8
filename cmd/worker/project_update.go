package main

import (
	"context"

	"github.com/jackc/pgx/v5"

	"berth/lifecycle"
)

type projectUpdate struct {
	output
	pairs
	forgotten
	Project     projectName `arg:"" name:"ORG/NAME" help:"The project, in any case."`
	Provisioner *string     `name:"provisioner" placeholder:"NAME" help:"The provisioner of its new deployments. An empty one is the organization's, or the default."`
	Slots       slots       `name:"slots" placeholder:"N" help:"How many slots its new deployments ask for."`
	Version     string      `name:"version" placeholder:"VERSION" help:"Which version its new deployments run: latest, such as 1.2.3, or a commit."`
}

// Run changes what new deployments of the project start from, and shows it. What is not given stays as it is, and so does what exists.
func (c *projectUpdate) Run(ctx context.Context, a *app) error {
	annotations, err := c.read()
	if err != nil {
		return err
	}
	return a.changing(ctx, func(ad *admin) error {
		p, err := ad.ProjectByName(ctx, ad.pool, c.Project.organization, c.Project.name)
		if err != nil {
			return err
		}
		id, change := p.ID, lifecycle.ProjectChange{
			Provisioner: c.Provisioner, Slots: int(c.Slots), Version: c.Version, Annotations: annotations, Forget: c.Forget,
		}
		err = ad.tx(ctx, func(tx pgx.Tx) error {
			var err error
			p, err = ad.UpdateProject(ctx, tx, id, change)
			return err
		})
		if err != nil {
			return err
		}
		return c.write(a.stdout, p, projectFields(p))
	})
}
