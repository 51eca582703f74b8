package static

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"berth/internal/defaults"
)

// Watch gives free room to those who wait and reports who got it: at once when this process gave it, else within a second. It
// asks hosts that failed a ping again and again, so that they are used soon after they answer.
func (s *Static) Watch(ctx context.Context, changed func(uuid.UUID)) error {
	ctx, cancel := context.WithCancel(ctx)
	var probing sync.WaitGroup
	defer probing.Wait()
	defer cancel()

	assign := time.NewTimer(0)
	defer assign.Stop()
	probe := time.NewTimer(jitter(s.times.probe))
	defer probe.Stop()
	probed := make(chan error, 1)
	tell := func(ids []uuid.UUID) {
		for _, id := range ids {
			changed(id)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.ready:
			tell(s.woken())
		case <-assign.C:
			served, err := s.assign(ctx)
			tell(served)
			if err != nil && ctx.Err() == nil {
				return err
			}
			assign.Reset(jitter(s.times.assign))
		case <-probe.C:
			probing.Go(func() { probed <- s.probe(ctx) })
		case err := <-probed:
			if err != nil && ctx.Err() == nil {
				return err
			}
			probe.Reset(jitter(s.times.probe))
		}
	}
}

// assign matches free room to those who wait, and looks for those who were given some and never woken.
func (s *Static) assign(ctx context.Context) ([]uuid.UUID, error) {
	served, err := s.store.Assign(ctx, s.pool)
	if err != nil {
		return nil, fmt.Errorf("assign free slots of %s: %w", s.pool.Name, err)
	}
	sleeping, err := s.store.Served(ctx, s.pool)
	if err != nil {
		return served, fmt.Errorf("look for who got slots of %s: %w", s.pool.Name, err)
	}
	return append(served, sleeping...), nil
}

// probe asks all hosts that failed.
func (s *Static) probe(ctx context.Context) error {
	runtimes, err := s.store.Runtimes(ctx, s.pool)
	if err != nil {
		return fmt.Errorf("look for runtimes of %s that failed: %w", s.pool.Name, err)
	}
	var under sync.WaitGroup
	room := make(chan struct{}, defaults.PingsAtOnce)
	for _, h := range runtimes {
		if h.FailedPings == 0 {
			continue
		}
		room <- struct{}{}
		under.Go(func() {
			defer func() { <-room }()
			_ = s.ask(ctx, h.Host, true) // reported, and asked again soon
		})
	}
	under.Wait()
	return nil
}

// jitter keeps processes that started together from doing everything together.
func jitter(d time.Duration) time.Duration { return d - d/10 + rand.N(d/5+1) }
