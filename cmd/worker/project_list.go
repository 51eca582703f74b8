package main

import (
	"context"
	"io"
	"strconv"

	"berth/internal/terminal"
)

type projectList struct{ output }

// Run lists all projects.
func (c *projectList) Run(ctx context.Context, a *app) error {
	return a.reading(ctx, func(ad *admin) error {
		all, err := ad.Projects(ctx, ad.pool)
		if err != nil {
			return err
		}
		return c.write(a.stdout, all, func() io.WriterTo {
			t := terminal.NewTable(terminal.Column{Head: "PROJECT", Least: 20}, terminal.Column{Head: "PROVISIONER", Least: 12}, terminal.Column{Head: "SLOTS", Right: true},
				terminal.Column{Head: "VERSION", Least: 12}, terminal.Column{Head: "CREATED"})
			for _, p := range all {
				t.Row(p.Organization+"/"+p.Name, p.Provisioner, strconv.Itoa(p.Slots), p.Version, stamp(&p.CreatedAt))
			}
			return t
		})
	})
}
