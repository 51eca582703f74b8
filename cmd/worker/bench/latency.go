package bench

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"golang.org/x/sync/errgroup"
)

// Latency measures, at a steady rate, from before BEGIN of the transaction that creates a deployment until it runs, against
// from before BEGIN of one that inserts a job that does nothing until that starts.
func Latency(ctx context.Context, url string, s Sizes, out io.Writer) error {
	n := int(s.Rate * float64(s.Seconds))
	r, err := newRig(ctx, url, 4*n)
	if err != nil {
		return err
	}
	defer func() { _ = r.close() }()
	l := &latencies{began: map[uuid.UUID]time.Time{}}
	stop, err := r.listen(ctx, l.heard)
	if err != nil {
		return err
	}
	defer stop()
	w, err := r.work(ctx, l.noop)
	if err != nil {
		return err
	}
	err = l.measure(ctx, r, s, n)
	if stopped := w.stop(); err == nil {
		err = stopped
	}
	if err != nil {
		return err
	}
	noop, path := percentiles(l.noops), percentiles(l.paths)
	fmt.Fprintf(out, "latency  no-op start        p50 %v  p90 %v  p99 %v  (%d)\n", noop[0], noop[1], noop[2], len(l.noops))
	fmt.Fprintf(out, "latency  deployment runs    p50 %v  p90 %v  p99 %v  (%d)\n", path[0], path[1], path[2], len(l.paths))
	fmt.Fprintf(out, "latency  median %v above the no-op's, p99 %.2f times\n", path[0]-noop[0], float64(path[2])/float64(noop[2]))
	return nil
}

type latencies struct {
	mu           sync.Mutex
	warm         bool
	began        map[uuid.UUID]time.Time
	noops, paths []time.Duration
}

func (l *latencies) noop(a noopArgs) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.warm {
		l.noops = append(l.noops, time.Since(time.Unix(0, a.At)))
	}
}

func (l *latencies) heard(id uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.began[id]; ok && l.warm {
		l.paths = append(l.paths, time.Since(at))
	}
	delete(l.began, id)
}

// measure runs yardstick and path in turn, after a warm-up of both.
func (l *latencies) measure(ctx context.Context, r *rig, s Sizes, n int) error {
	steps := []struct {
		what func(context.Context, *rig) error
		n    int
	}{{l.insert, n / 10}, {l.create, n / 10}, {nil, 0}, {l.insert, n / 2}, {l.create, n / 2}, {l.insert, n / 2}, {l.create, n / 2}}
	for _, step := range steps {
		if step.what == nil {
			l.mu.Lock()
			l.warm = true
			l.mu.Unlock()
			continue
		}
		var g errgroup.Group
		for range step.n {
			if err := arrive(ctx, s.Rate); err != nil {
				return err
			}
			g.Go(func() error { return step.what(ctx, r) })
		}
		if err := g.Wait(); err != nil {
			return err
		}
		if err := r.until(ctx, time.Minute, unfinished); err != nil {
			return err
		}
		if err := r.until(ctx, time.Minute, `SELECT count(*) FROM berth.deployments WHERE state <> 'running'`); err != nil {
			return err
		}
	}
	return l.told(ctx, n/2*2)
}

// told waits until every deployment's notification came.
func (l *latencies) told(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		l.mu.Lock()
		got := len(l.paths)
		l.mu.Unlock()
		if got >= n {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for notifications: %d of %d came: %w", got, n, ctx.Err())
		}
	}
}

// arrive waits for the next arrival of a Poisson process.
func arrive(ctx context.Context, rate float64) error {
	t := time.NewTimer(time.Duration(rand.ExpFloat64() / rate * float64(time.Second)))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *latencies) insert(ctx context.Context, r *rig) error {
	at := time.Now()
	return pgx.BeginFunc(ctx, r.admin, func(tx pgx.Tx) error {
		_, err := r.insert.InsertTx(ctx, tx, noopArgs{At: at.UnixNano()}, &river.InsertOpts{Queue: noopQueue})
		return err
	})
}

func (l *latencies) create(ctx context.Context, r *rig) error {
	id := uuid.New()
	l.mu.Lock()
	l.began[id] = time.Now()
	l.mu.Unlock()
	return r.create(ctx, id)
}

// percentiles are the 50th, 90th and 99th.
func percentiles(ds []time.Duration) [3]time.Duration {
	if len(ds) == 0 {
		return [3]time.Duration{}
	}
	slices.Sort(ds)
	at := func(q float64) time.Duration {
		return ds[min(int(q*float64(len(ds))), len(ds)-1)].Round(100 * time.Microsecond)
	}
	return [3]time.Duration{at(.5), at(.9), at(.99)}
}
