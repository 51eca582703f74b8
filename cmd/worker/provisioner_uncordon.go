package main

import "context"

type provisionerUncordon struct{ hostArguments }

// Run opens the host again.
func (c *provisionerUncordon) Run(ctx context.Context, a *app) error {
	return a.reading(ctx, func(ad *admin) error {
		if err := c.cordon(ctx, ad, false); err != nil {
			return err
		}
		a.say("host %s of %s takes new resources", c.Host, c.Name)
		return nil
	})
}
