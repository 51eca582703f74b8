package main

import (
	"cmp"
	"context"
	"io"
	"maps"
	"slices"
	"strconv"

	"berth/internal/terminal"
	"berth/lifecycle"
)

type projectShow struct {
	output
	Project projectName `arg:"" name:"ORG/NAME" help:"The project, in any case."`
}

// Run shows the project.
func (c *projectShow) Run(ctx context.Context, a *app) error {
	return a.reading(ctx, func(ad *admin) error {
		p, err := ad.ProjectByName(ctx, ad.pool, c.Project.organization, c.Project.name)
		if err != nil {
			return err
		}
		return c.write(a.stdout, p, projectFields(p))
	})
}

func projectFields(p lifecycle.Project) func() io.WriterTo {
	return func() io.WriterTo {
		f := &terminal.Fields{}
		f.Add("project", p.Organization+"/"+p.Name)
		f.Add("id", p.ID.String())
		f.Add("provisioner", cmp.Or(p.Provisioner, "the organization's, or the default"))
		f.Add("slots", strconv.Itoa(p.Slots))
		f.Add("version", p.Version)
		for _, k := range slices.Sorted(maps.Keys(p.Annotations)) {
			f.Add("annotation", k+"="+p.Annotations[k])
		}
		f.Add("created", stamp(&p.CreatedAt))
		return f
	}
}
