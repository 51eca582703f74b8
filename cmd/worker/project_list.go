package main

import (
	"context"
	"io"
	"strconv"

	"berth/internal/terminal"
)

type projectList struct {
	output
	paging
	After projectName `name:"after" placeholder:"ORG/NAME" help:"Only those after this one: the last one of the page before."`
}

// Run lists projects, a page at a time.
func (c *projectList) Run(ctx context.Context, a *app) error {
	return a.reading(ctx, func(ad *admin) error {
		page, err := ad.Projects(ctx, ad.pool, c.After.organization, c.After.name, c.Limit)
		if err != nil {
			return err
		}
		err = c.write(a.stdout, page, func() io.WriterTo {
			t := terminal.NewTable(terminal.Column{Head: "PROJECT", Least: 20}, terminal.Column{Head: "PROVISIONER", Least: 12}, terminal.Column{Head: "SLOTS", Right: true},
				terminal.Column{Head: "VERSION", Least: 12}, terminal.Column{Head: "CREATED"})
			for _, p := range page {
				t.Row(p.Organization+"/"+p.Name, p.Provisioner, strconv.Itoa(p.Slots), p.Version, stamp(&p.CreatedAt))
			}
			return t
		})
		if err != nil {
			return err
		}
		c.full(a, len(page), func() string { return page[len(page)-1].Organization + "/" + page[len(page)-1].Name })
		return nil
	})
}
