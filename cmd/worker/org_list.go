package main

import (
	"context"
	"io"

	"berth/internal/terminal"
)

type orgList struct {
	output
	paging
	After string `name:"after" placeholder:"NAME" help:"Only those after this one: the last one of the page before."`
}

// Run lists organizations, a page at a time.
func (c *orgList) Run(ctx context.Context, a *app) error {
	return a.reading(ctx, func(ad *admin) error {
		page, err := ad.Organizations(ctx, ad.pool, c.After, c.Limit)
		if err != nil {
			return err
		}
		err = c.write(a.stdout, page, func() io.WriterTo {
			t := terminal.NewTable(terminal.Column{Head: "NAME", Least: 20}, terminal.Column{Head: "DEFAULT PROVISIONER", Least: 20}, terminal.Column{Head: "CREATED"})
			for _, o := range page {
				t.Row(o.Name, o.DefaultProvisioner, stamp(&o.CreatedAt))
			}
			return t
		})
		if err != nil {
			return err
		}
		c.full(a, len(page), func() string { return page[len(page)-1].Name })
		return nil
	})
}
