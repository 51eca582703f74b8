package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// clusterLatency measures from before BEGIN of the transaction that creates a deployment until it runs, against applying the same objects
// one after another and watching until the Deployment is available, in turn.
func clusterLatency(ctx context.Context, g *ground, url string, s Sizes, out io.Writer) (err error) {
	yardstick, err := g.plain(ctx)
	if err != nil {
		return err
	}
	p, err := g.path(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.end()) }()
	var plains, paths []time.Duration
	for range s.Each {
		plain, err := yardstick.run(ctx)
		if err != nil {
			return err
		}
		path, err := p.run(ctx, 1)
		if err != nil {
			return err
		}
		plains, paths = append(plains, plain), append(paths, path)
	}
	plain, path := percentiles(plains), percentiles(paths)
	fmt.Fprintf(out, "cluster-latency  applied and watched  p50 %v  p90 %v  (%d)\n", plain[0], plain[1], len(plains))
	fmt.Fprintf(out, "cluster-latency  deployment runs      p50 %v  p90 %v  (%d)\n", path[0], path[1], len(paths))
	fmt.Fprintf(out, "cluster-latency  median %v above what is applied and watched, %.2f times\n", path[0]-plain[0], float64(path[0])/float64(plain[0]))
	return quoteKubectl(ctx, yardstick, s.Kubectl, out)
}

// quoteKubectl says what the same takes by kubectl, where that is to be had. No figure hangs on it.
func quoteKubectl(ctx context.Context, yardstick *plain, n int, out io.Writer) error {
	var all []time.Duration
	for range n {
		one, err := yardstick.kubectl(ctx)
		if err != nil && ctx.Err() == nil {
			fmt.Fprintf(out, "cluster-latency  kubectl: not measured: %v\n", err)
			return nil
		}
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	fmt.Fprintf(out, "cluster-latency  kubectl apply, then kubectl wait: p50 %v  (%d)\n", percentiles(all)[0], n)
	return nil
}
