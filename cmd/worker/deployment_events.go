package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"berth/internal/terminal"
)

type deploymentEvents struct {
	output
	paging
	ID    id    `arg:"" name:"ID" help:"The id of the deployment."`
	After int64 `name:"after" placeholder:"N" help:"Only those after this one: the id of the last one of the page before."`
}

// Validate refuses what is no page.
func (c *deploymentEvents) Validate() error {
	if c.After < 0 {
		return fmt.Errorf("--after: %d is no id of an event: use that of the last one of the page before", c.After)
	}
	return c.paging.Validate()
}

// Run lists what happened to the deployment, oldest first, a page at a time.
func (c *deploymentEvents) Run(ctx context.Context, a *app) error {
	return a.reading(ctx, func(ad *admin) error {
		page, err := ad.Events(ctx, ad.pool, c.ID.UUID, c.After, c.Limit)
		if err != nil {
			return err
		}
		if len(page) == 0 && c.After == 0 { // each has at least that of its creation
			if _, err := ad.Get(ctx, ad.pool, c.ID.UUID); err != nil {
				return err
			}
		}
		err = c.write(a.stdout, page, func() io.WriterTo {
			t := terminal.NewTable(terminal.Column{Head: "AT"}, terminal.Column{Head: "KIND", Least: 12}, terminal.Column{Head: "ACTOR", Least: 6}, terminal.Column{Head: "DETAIL", Least: 12})
			for _, e := range page {
				detail := string(e.Detail)
				if detail == "{}" {
					detail = ""
				}
				t.Row(stamp(&e.At), e.Kind, e.Actor, detail)
			}
			return t
		})
		if err != nil {
			return err
		}
		c.full(a, len(page), func() string { return strconv.FormatInt(page[len(page)-1].ID, 10) })
		return nil
	})
}
