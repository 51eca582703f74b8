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
	asked := p.requests.plain.Load()
	took, err := p.run(ctx, s.Burst)
	if err != nil {
		return err
	}
	rate := float64(s.Burst) / took.Seconds()
	fmt.Fprintf(out, "cluster-rate  applied and watched one after another %.1f/s (%d)  %d deployments at once %.1f/s, in %v, %.1f requests each  ratio %.1f\n",
		plain, s.Plain, s.Burst, rate, took.Round(time.Millisecond), float64(p.requests.plain.Load()-asked)/float64(s.Burst), rate/plain)
	return nil
}
