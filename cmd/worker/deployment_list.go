package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"berth/internal/terminal"
	"berth/lifecycle"
)

type deploymentList struct {
	output
	paging
	Org         string      `name:"org" placeholder:"ORG" help:"Only those of this organization."`
	Project     projectName `name:"project" placeholder:"ORG/PROJECT" help:"Only those of this project."`
	State       string      `name:"state" placeholder:"STATE" help:"Only those in this state, such as running or errored."`
	Provisioner string      `name:"provisioner" placeholder:"NAME" help:"Only those whose runtime is there."`
	After       id          `name:"after" placeholder:"ID" help:"Only those after this one: the last one of the page before."`
}

var states = []string{lifecycle.Pending, lifecycle.Running, lifecycle.Updating, lifecycle.Stopping, lifecycle.Stopped, lifecycle.Deleting, lifecycle.Errored}

// Validate refuses what would only give an empty listing.
func (c *deploymentList) Validate() error {
	switch {
	case c.State != "" && !slices.Contains(states, c.State):
		return fmt.Errorf("--state: %q is no state: use one of %s", shortened([]byte(c.State)), strings.Join(states, ", "))
	case c.Org != "" && c.Project.organization != "" && !strings.EqualFold(c.Org, c.Project.organization):
		return fmt.Errorf("--org: %q is not the organization of --project: leave one of them out", shortened([]byte(c.Org)))
	}
	return c.paging.Validate()
}

// Run lists deployments, a page at a time.
func (c *deploymentList) Run(ctx context.Context, a *app) error {
	return a.reading(ctx, func(ad *admin) error {
		page, err := ad.List(ctx, ad.pool, lifecycle.Filter{
			Organization: cmp.Or(c.Org, c.Project.organization), Project: c.Project.name, State: c.State,
			Provisioner: c.Provisioner, After: c.After.UUID, Limit: c.Limit,
		})
		if err != nil {
			return err
		}
		if err := c.write(a.stdout, page, func() io.WriterTo { return deploymentTable(page) }); err != nil {
			return err
		}
		c.full(a, len(page), func() string { return page[len(page)-1].ID.String() })
		return nil
	})
}

func deploymentTable(page []lifecycle.Deployment) *terminal.Table {
	t := terminal.NewTable(terminal.Column{Head: "ID"}, terminal.Column{Head: "PROJECT", Least: 12}, terminal.Column{Head: "ENV", Least: 6},
		terminal.Column{Head: "STATE"}, terminal.Column{Head: "SLOTS", Right: true}, terminal.Column{Head: "RUNTIME OR REASON", Least: 12})
	for _, d := range page {
		why := strings.TrimPrefix(because(d), ": ")
		if d.State == lifecycle.Running {
			why = ""
		}
		t.Row(d.ID.String(), d.Organization+"/"+d.Project, d.Environment, d.State, strconv.Itoa(d.Slots), cmp.Or(why, d.RuntimeHost))
	}
	return t
}
