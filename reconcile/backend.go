package reconcile

import (
	"context"
	"sync"
	"time"

	"berth/internal/defaults"
	"berth/provisioner"
)

// backend is a provisioner as this process uses it.
type backend struct {
	provisioner.Provisioner
	name  string
	slots chan struct{} // nil: as many calls at once as there are jobs

	mu   sync.Mutex
	down time.Time // since when it does not answer; zero if it did when last asked
}

func newBackend(name string, p provisioner.Provisioner) *backend {
	b := &backend{Provisioner: p, name: name}
	if n := p.Info().Concurrency; n > 0 {
		b.slots = make(chan struct{}, n)
	}
	return b
}

// enter waits for room for one more call; leave gives it back.
func (b *backend) enter(ctx context.Context) error {
	if b.slots == nil {
		return nil
	}
	select {
	case b.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (b *backend) leave() {
	if b.slots != nil {
		<-b.slots
	}
}

// answered notes that the backend as a whole does.
func (b *backend) answered() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = time.Time{}
}

// silent notes that it does not, and returns for how long to leave it alone: longer the longer it has been so, whatever the
// number of its resources.
func (b *backend) silent(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down.IsZero() {
		b.down = now
	}
	return min(max(now.Sub(b.down)/2, defaults.UnavailWait), defaults.UnavailMax)
}
