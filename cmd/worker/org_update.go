package main

import (
	"context"

	"berth/lifecycle"
)

type orgUpdate struct {
	output
	Name               string  `arg:"" name:"NAME" help:"Its name, in any case."`
	DefaultProvisioner *string `name:"default-provisioner" placeholder:"NAME" help:"The provisioner of its new deployments, where their project names none. An empty one is none of its own."`
}

// Run changes the organization and shows it. What exists stays where it is.
func (c *orgUpdate) Run(ctx context.Context, a *app) error {
	return a.changing(ctx, func(ad *admin) error {
		o, err := ad.OrganizationByName(ctx, ad.pool, c.Name)
		if err != nil {
			return err
		}
		if o, err = ad.UpdateOrganization(ctx, ad.pool, o.ID, lifecycle.OrganizationChange{DefaultProvisioner: c.DefaultProvisioner}); err != nil {
			return err
		}
		return c.write(a.stdout, o, organizationFields(o))
	})
}
