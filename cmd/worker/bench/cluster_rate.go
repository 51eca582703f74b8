package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// clusterRate measures how many a second run of deployments that one transaction creates, against applying the same objects and waiting
// for them, one deployment after another.
func clusterRate(ctx context.Context, g *ground, url string, s Sizes, out io.Writer) (err error) {
	yardstick, err := g.plain(ctx)
	if err != nil {
		return err
	}
	p, err := g.path(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.end()) }()
	began := time.Now()
	for range s.Plain {
		if _, err := yardstick.run(ctx); err != nil {
			return err
		}
	}
	plain := float64(s.Plain) / time.Since(began).Seconds()
	began = time.Now()
	if err := yardstick.together(ctx, 2*s.Plain); err != nil {
		return err
	}
	together := float64(2*s.Plain) / time.Since(began).Seconds()
	asked := p.requests.plain.Load()
	took, err := p.run(ctx, s.Burst)
	if err != nil {
		return err
	}
	rate := float64(s.Burst) / took.Seconds()
	fmt.Fprintf(out, "cluster-rate  applied and watched one after another %.1f/s (%d)  %d deployments at once %.1f/s, in %v, %.1f requests each  ratio %.1f\n",
		plain, s.Plain, s.Burst, rate, took.Round(time.Millisecond), float64(p.requests.plain.Load()-asked)/float64(s.Burst), rate/plain)
	fmt.Fprintf(out, "cluster-rate  applied and watched side by side %.1f/s (%d, %d at a time): what the cluster can do  ratio to one after another %.1f, of deployments to it %.2f\n",
		together, 2*s.Plain, sideBySide, together/plain, rate/together)
	return nil
}
