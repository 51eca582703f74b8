package main

import (
	"context"

	"github.com/jackc/pgx/v5"
)

type provisionerActivate struct {
	Name    string `arg:"" name:"NAME" help:"The provisioner."`
	Digest  string `name:"digest" placeholder:"PREFIX" xor:"what" help:"Which of several that wait, by the beginning of its digest."`
	Default bool   `name:"default" xor:"what" help:"Make it the default provisioner, as a worker that is up has it configured, and nothing else."`
}

// Run hands over at once what would be handed over once no worker has the one that acts.
func (c *provisionerActivate) Run(ctx context.Context, a *app) error {
	return a.reading(ctx, func(ad *admin) error {
		if c.Default {
			if err := ad.tx(ctx, func(tx pgx.Tx) error { return ad.ActivateDefault(ctx, tx, c.Name) }); err != nil {
				return err
			}
			a.say("%s is the default provisioner", c.Name)
			return nil
		}
		digest, err := ad.Activate(ctx, ad.pool, c.Name, c.Digest)
		if err != nil {
			return err
		}
		a.say("configuration %s of %s acts: its workers take over within seconds", digest, c.Name)
		return nil
	})
}
