package main

import (
	"context"
	"io"

	"berth/internal/terminal"
)

type deploymentEvents struct {
	output
	ID id `arg:"" name:"ID" help:"The id of the deployment."`
}

// Run lists what happened to the deployment, oldest first.
func (c *deploymentEvents) Run(ctx context.Context, a *app) error {
	return a.reading(ctx, func(ad *admin) error {
		all, err := ad.Events(ctx, ad.pool, c.ID.UUID)
		if err != nil {
			return err
		}
		if len(all) == 0 { // each has at least that of its creation
			if _, err := ad.Get(ctx, ad.pool, c.ID.UUID); err != nil {
				return err
			}
		}
		return c.write(a.stdout, all, func() io.WriterTo {
			t := terminal.NewTable(terminal.Column{Head: "AT"}, terminal.Column{Head: "KIND", Least: 12}, terminal.Column{Head: "ACTOR", Least: 6}, terminal.Column{Head: "DETAIL", Least: 12})
			for _, e := range all {
				detail := string(e.Detail)
				if detail == "{}" {
					detail = ""
				}
				t.Row(stamp(&e.At), e.Kind, e.Actor, detail)
			}
			return t
		})
	})
}
