package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"berth/provisioner"
)

const (
	observeBatch = 500 // the most that a caller of Observe may ask for
	syncBound    = time.Minute
	together     = 200 // deployments made in one transaction, of those that are watched
)

// clusterWatch makes many deployments, then measures what it takes to watch them: memory for each, and what it takes to see that all of
// them are healthy.
func clusterWatch(ctx context.Context, g *ground, url string, s Sizes, out io.Writer) (err error) {
	p, err := g.path(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.end()) }()
	began := time.Now()
	for left := s.Watched - warm; left > 0; left -= together {
		if _, err := p.run(ctx, min(left, together)); err != nil {
			return err
		}
	}
	took := time.Since(began)
	if err := errors.Join(p.settle(ctx), p.rest()); err != nil {
		return err
	}
	resources, err := p.resources(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "cluster-watch  %d deployments made in %v\n", len(resources), took.Round(time.Second))
	r := &requests{}
	backend, err := g.provisioner(r)
	if err != nil {
		return err
	}
	if c, ok := backend.(io.Closer); ok {
		defer func() { err = errors.Join(err, c.Close()) }()
	}
	before := heapInUse()
	unwatch, err := watchAll(ctx, backend, r, resources[:1])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unwatch()) }()
	each := (float64(heapInUse()) - float64(before)) / 1024 / float64(len(resources))
	fmt.Fprintf(out, "cluster-watch  heap in use %.1f KiB for each of %d watched deployments\n", each, len(resources))

	asked, watches := r.plain.Load(), r.watches.Load()
	var times []time.Duration
	for range s.Pairs {
		took, err := observeAll(ctx, backend, resources)
		if err != nil {
			return err
		}
		times = append(times, took)
	}
	fmt.Fprintf(out, "cluster-watch  %d deployments observed, all healthy, median of %d: %v, with %d requests to the cluster, and %d watches begun anew\n",
		len(resources), s.Pairs, percentiles(times)[0], r.plain.Load()-asked, r.watches.Load()-watches)
	runtime.KeepAlive(backend)
	return nil
}

// resources are all that there is, as a worker would hand them to the provisioner.
func (p *path) resources(ctx context.Context) ([]provisioner.Resource, error) {
	rows, err := p.admin.Query(ctx, `SELECT id, type, name, args, state, config FROM berth.provisioner_resources ORDER BY id`)
	if err != nil {
		return nil, fmt.Errorf("read resources: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r provisioner.Resource, err error) {
		return r, row.Scan(&r.ID, &r.Type, &r.Name, &r.Args, &r.State, &r.Config)
	})
	if err != nil {
		return nil, fmt.Errorf("read resources: %w", err)
	}
	return all, nil
}

// watchAll has a provisioner watch, and returns when it holds everything: when it asks the cluster nothing to see one that is healthy.
func watchAll(ctx context.Context, p provisioner.Provisioner, r *requests, one []provisioner.Resource) (unwatch func() error, err error) {
	w, ok := p.(provisioner.Watcher)
	if !ok {
		return nil, errors.New("the provisioner can not be watched")
	}
	watching, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Watch(watching, func(uuid.UUID) {}) }()
	unwatch = func() error { stop(); return <-ended }
	deadline, cancel := context.WithTimeoutCause(ctx, syncBound, fmt.Errorf("not so after %v", syncBound))
	defer cancel()
	tick := time.NewTicker(clearLook)
	defer tick.Stop()
	for {
		asked := r.plain.Load()
		seen, err := p.Observe(deadline, one)
		if err == nil && r.plain.Load() == asked && seen[0].Phase == provisioner.PhaseReady {
			return unwatch, nil
		}
		select {
		case <-tick.C:
		case <-deadline.Done():
			return nil, errors.Join(fmt.Errorf("wait until everything is watched: %w", context.Cause(deadline)), err, unwatch())
		}
	}
}

// observeAll has a provisioner look at all resources once. They are healthy.
func observeAll(ctx context.Context, p provisioner.Provisioner, all []provisioner.Resource) (time.Duration, error) {
	began := time.Now()
	for batch := range slices.Chunk(all, observeBatch) {
		seen, err := p.Observe(ctx, batch)
		if err != nil {
			return 0, fmt.Errorf("observe: %w", err)
		}
		for i, o := range seen {
			if o.Phase != provisioner.PhaseReady || len(o.Drift) > 0 {
				return 0, fmt.Errorf("observe: %s is not healthy: %s: %s: %s %v", batch[i].ID, o.Phase, o.Reason, o.Message, o.Drift)
			}
		}
	}
	return time.Since(began), nil
}

// heapInUse is what the heap of this process takes, garbage aside.
func heapInUse() uint64 {
	runtime.GC()
	runtime.GC() // what the first one found to be finalized, and what pools kept for one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}
