package main

import (
	"context"

	"berth/db"
)

type migrateUp struct{}

// Run migrates the schema.
func (c *migrateUp) Run(ctx context.Context, a *app) error {
	pool, err := a.open(ctx, db.PoolOptions{})
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := db.Migrate(ctx, pool); err != nil {
		return err
	}
	v, err := db.Status(ctx, pool)
	if err != nil {
		return err
	}
	a.say("the schema is at version %d, the queue at %d", v.Schema.Applied, v.Queue.Applied)
	return nil
}
