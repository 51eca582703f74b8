package main

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"berth/lifecycle"
)

type deploymentCreate struct {
	output
	waiting
	Project     projectName `arg:"" name:"ORG/PROJECT" help:"The project that it is made from."`
	ID          id          `name:"id" placeholder:"UUID" help:"Its id. A new one if not given."`
	Environment string      `name:"environment" placeholder:"NAME" default:"prod" help:"Its environment, such as prod or dev. prod if not given."`
	Slots       slots       `name:"slots" placeholder:"N" help:"How many slots it asks for. The project's if not given."`
	Version     string      `name:"version" placeholder:"VERSION" help:"Which version it runs: latest, such as 1.2.3, or a commit. The project's if not given."`
}

// Run creates the deployment and shows it.
func (c *deploymentCreate) Run(ctx context.Context, a *app) error {
	if c.ID.UUID == uuid.Nil {
		var err error
		if c.ID.UUID, err = uuid.NewV7(); err != nil {
			return fmt.Errorf("make an id: %w", err)
		}
	}
	return a.changing(ctx, func(ad *admin) error {
		p, err := ad.ProjectByName(ctx, ad.pool, c.Project.organization, c.Project.name)
		if err != nil {
			return err
		}
		return ad.change(ctx, a, c.ID.UUID, c.output, c.waiting, func(tx pgx.Tx) error {
			return ad.Create(ctx, tx, lifecycle.NewDeployment{
				ID: c.ID.UUID, ProjectID: p.ID, Environment: c.Environment, Slots: int(c.Slots), Version: c.Version,
			})
		})
	})
}
