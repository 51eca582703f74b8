package main

import (
	"context"

	"berth/db"
)

type migrateDown struct {
	Discard bool `name:"discard" help:"Drop them even so. What they stand for outside is left with nobody to remove it."`
}

// Run drops all tables.
func (c *migrateDown) Run(ctx context.Context, a *app) error {
	pool, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := db.MigrateDown(ctx, pool, c.Discard); err != nil {
		return err
	}
	a.say("the tables are dropped")
	return nil
}
