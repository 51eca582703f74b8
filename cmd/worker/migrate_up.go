package main

import (
	"context"

	"berth/db"
	"berth/lifecycle"
)

type migrateUp struct{ setFlags }

// Run migrates the schema and makes the configured provisioners known, where there are any, so that an admin can enqueue before
// the first worker starts.
func (c *migrateUp) Run(ctx context.Context, a *app) error {
	known, err := a.configured(c.setFlags).lookIfSet()
	if err != nil {
		return err
	}
	client, err := lifecycle.NewClient(actor, a.log("warn"))
	if err != nil {
		return err
	}
	pool, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := db.Migrate(ctx, pool); err != nil {
		return err
	}
	if err := (&admin{client, pool}).register(ctx, known); err != nil {
		return err
	}
	v, err := db.Status(ctx, pool)
	if err != nil {
		return err
	}
	a.say("the schema is at version %d, the queue at %d", v.Schema.Applied, v.Queue.Applied)
	return nil
}
