package main

import (
	"context"
	"io"
	"time"

	"github.com/google/uuid"

	"berth/internal/terminal"
	"berth/lifecycle"
)

type resourceShow struct {
	output
	ID id `arg:"" name:"ID" help:"The id of the resource."`
}

// shownResource is one resource with its places, the current one first.
type shownResource struct {
	ID           uuid.UUID         `json:"id"`
	Type         string            `json:"type"`
	Name         string            `json:"name"`
	DeploymentID *uuid.UUID        `json:"deployment_id"` // null: only cleaning up is left
	Places       []lifecycle.Place `json:"places"`
}

// Run shows the resource.
func (c *resourceShow) Run(ctx context.Context, a *app) error {
	return a.reading(ctx, func(ad *admin) error { return ad.showResource(ctx, a, c.output, c.ID.UUID) })
}

func (ad *admin) showResource(ctx context.Context, a *app, out output, id uuid.UUID) error {
	places, err := ad.PlacesOf(ctx, ad.pool, id)
	if err != nil {
		return err
	}
	r := shownResource{ID: id, Type: places[0].Type, Name: places[0].Name, Places: places}
	for _, p := range places {
		if r.DeploymentID == nil {
			r.DeploymentID = p.DeploymentID
		}
	}
	at := ad.provisionersNow(ctx)
	return out.write(a.stdout, r, func() io.WriterTo {
		owner := "none: only cleaning up is left"
		if r.DeploymentID != nil {
			owner = r.DeploymentID.String()
		}
		f := &terminal.Fields{}
		f.Add("resource", id.String())
		f.Add("deployment", owner)
		parts := several{f}
		for _, p := range places {
			parts = append(parts, text("\n"), resourceText(p.Resource, p.DeploymentID, at, time.Now()))
		}
		return parts
	})
}
