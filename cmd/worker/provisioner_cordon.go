package main

import "context"

type provisionerCordon struct{ hostArguments }

// Run closes the host. What is there stays.
func (c *provisionerCordon) Run(ctx context.Context, a *app) error {
	return a.reading(ctx, func(ad *admin) error {
		if err := c.cordon(ctx, ad, true); err != nil {
			return err
		}
		a.say("host %s of %s takes no new resources", c.Host, c.Name)
		return nil
	})
}
