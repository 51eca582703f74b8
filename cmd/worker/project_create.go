package main

import (
	"context"

	"berth/lifecycle"
)

type projectCreate struct {
	output
	pairs
	Project     projectName `arg:"" name:"ORG/NAME" help:"The organization, which exists, and the name of the new project."`
	Provisioner string      `name:"provisioner" placeholder:"NAME" help:"The provisioner of its new deployments. The organization's, or the default, if not given."`
	Slots       slots       `name:"slots" placeholder:"N" help:"How many slots its new deployments ask for. One if not given."`
	Version     string      `name:"version" placeholder:"VERSION" help:"Which version its new deployments run: latest, such as 1.2.3, or a commit. The latest if not given."`
}

// Run creates the project and shows it.
func (c *projectCreate) Run(ctx context.Context, a *app) error {
	annotations, err := c.read()
	if err != nil {
		return err
	}
	return a.changing(ctx, func(ad *admin) error {
		o, err := ad.OrganizationByName(ctx, ad.pool, c.Project.organization)
		if err != nil {
			return err
		}
		p, err := ad.CreateProject(ctx, ad.pool, lifecycle.NewProject{
			OrganizationID: o.ID, Name: c.Project.name, Provisioner: c.Provisioner,
			Slots: int(c.Slots), Version: c.Version, Annotations: annotations,
		})
		if err != nil {
			return err
		}
		return c.write(a.stdout, p, projectFields(p))
	})
}
