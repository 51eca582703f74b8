package main

import (
	"context"
)

type orgCreate struct {
	output
	Name               string `arg:"" name:"NAME" help:"Its name: 1 to 63 of A-Z, a-z, 0-9, dot, underscore and dash."`
	DefaultProvisioner string `name:"default-provisioner" placeholder:"NAME" help:"The provisioner of its new deployments, where their project names none."`
}

// Run creates the organization and shows it.
func (c *orgCreate) Run(ctx context.Context, a *app) error {
	return a.changing(ctx, func(ad *admin) error {
		o, err := ad.CreateOrganization(ctx, ad.pool, c.Name, c.DefaultProvisioner)
		if err != nil {
			return err
		}
		return c.write(a.stdout, o, organizationFields(o))
	})
}
