package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"berth/internal/terminal"
	"berth/lifecycle"
	"berth/provisioner"
)

type resourceList struct {
	output
	paging
	Deployment  id     `name:"deployment" placeholder:"ID" help:"Only those of this deployment."`
	Provisioner string `name:"provisioner" placeholder:"NAME" help:"Only those there."`
	Type        string `name:"type" placeholder:"TYPE" help:"Only those of this type, such as runtime."`
	Phase       string `name:"phase" placeholder:"PHASE" help:"Only those last seen in this phase, such as pending or ready."`
	Reason      string `name:"reason" placeholder:"REASON" help:"Only those that give this reason, such as NoCapacity."`
	After       id     `name:"after" placeholder:"ID" help:"Only those after this one: the last one of the page before."`
}

// Validate refuses what would only give an empty listing.
func (c *resourceList) Validate() error {
	if c.Phase != "" && !slices.Contains(lifecycle.Phases, provisioner.Phase(c.Phase)) {
		var all []string
		for _, p := range lifecycle.Phases {
			all = append(all, string(p))
		}
		return fmt.Errorf("--phase: %q is no phase: use one of %s", shortened([]byte(c.Phase)), strings.Join(all, ", "))
	}
	return c.paging.Validate()
}

// Run lists resources, a page at a time: a line for each place, and a resource that moves has two.
func (c *resourceList) Run(ctx context.Context, a *app) error {
	return a.reading(ctx, func(ad *admin) error {
		page, err := ad.Places(ctx, ad.pool, lifecycle.PlaceFilter{
			DeploymentID: c.Deployment.UUID, Provisioner: c.Provisioner, Type: c.Type, Phase: c.Phase, Reason: c.Reason, After: c.After.UUID, Limit: c.Limit,
		})
		if err != nil {
			return err
		}
		err = c.write(a.stdout, page, func() io.WriterTo {
			t := terminal.NewTable(terminal.Column{Head: "ID"}, terminal.Column{Head: "RESOURCE", Least: 8}, terminal.Column{Head: "PROVISIONER", Least: 11},
				terminal.Column{Head: "PHASE", Least: 8}, terminal.Column{Head: "REASON", Least: 8})
			for _, p := range page {
				t.Row(p.ID.String(), named(p.Resource), p.Provisioner, wished(p.Phase, p.DesiredPhase), p.Reason)
			}
			return t
		})
		if err != nil {
			return err
		}
		c.full(a, len(page), func() string { return page[len(page)-1].ID.String() })
		return nil
	})
}

// named is what a resource is to its deployment.
func named(r lifecycle.Resource) string {
	if r.Name == "" {
		return r.Type
	}
	return r.Type + "/" + r.Name
}
