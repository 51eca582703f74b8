package main

import (
	"cmp"
	"context"
	"io"

	"berth/internal/terminal"
	"berth/lifecycle"
)

type orgShow struct {
	output
	Name string `arg:"" name:"NAME" help:"Its name, in any case."`
}

// Run shows the organization.
func (c *orgShow) Run(ctx context.Context, a *app) error {
	return a.reading(ctx, func(ad *admin) error {
		o, err := ad.OrganizationByName(ctx, ad.pool, c.Name)
		if err != nil {
			return err
		}
		return c.write(a.stdout, o, organizationFields(o))
	})
}

func organizationFields(o lifecycle.Organization) func() io.WriterTo {
	return func() io.WriterTo {
		f := &terminal.Fields{}
		f.Add("organization", o.Name)
		f.Add("id", o.ID.String())
		f.Add("default provisioner", cmp.Or(o.DefaultProvisioner, "none of its own"))
		f.Add("created", stamp(&o.CreatedAt))
		return f
	}
}
