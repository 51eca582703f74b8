package main

import (
	"context"
	"io"

	"berth/internal/terminal"
)

type orgList struct{ output }

// Run lists all organizations.
func (c *orgList) Run(ctx context.Context, a *app) error {
	return a.reading(ctx, func(ad *admin) error {
		all, err := ad.Organizations(ctx, ad.pool)
		if err != nil {
			return err
		}
		return c.write(a.stdout, all, func() io.WriterTo {
			t := terminal.NewTable(terminal.Column{Head: "NAME", Least: 20}, terminal.Column{Head: "DEFAULT PROVISIONER", Least: 20}, terminal.Column{Head: "CREATED"})
			for _, o := range all {
				t.Row(o.Name, o.DefaultProvisioner, stamp(&o.CreatedAt))
			}
			return t
		})
	})
}
