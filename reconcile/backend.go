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
	name   string
	slots  chan struct{} // nil: as many calls at once as there are jobs
	behind chan struct{} // and of those, for what nobody waits for

	changed *changes // resources to be woken

	mu   sync.Mutex
	down time.Time // since when it does not answer; zero if it did when last asked
}

func newBackend(name string, p provisioner.Provisioner) *backend {
	b := &backend{Provisioner: p, name: name, changed: newChanges()}
	if n := p.Info().Concurrency; n > 0 {
		b.slots, b.behind = make(chan struct{}, n), make(chan struct{}, max(1, n/defaults.BackgroundShare))
	}
	return b
}

// enter waits for room for one more call, as long as a job may and still have time for the call; leave gives it back. What nobody
// waits for gets a share of it alone.
func (b *backend) enter(ctx context.Context, background bool) bool {
	if b.slots == nil {
		return true
	}
	t := time.NewTimer(defaults.JobTimeout - defaults.CallTimeout - defaults.LeaseMargin)
	defer t.Stop()
	if background {
		select {
		case b.behind <- struct{}{}:
		case <-t.C: // the dispatcher brings it back
			return false
		case <-ctx.Done():
			return false
		}
	}
	select {
	case b.slots <- struct{}{}:
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	if background {
		<-b.behind
	}
	return false
}

func (b *backend) leave(background bool) {
	if b.slots == nil {
		return
	}
	<-b.slots
	if background {
		<-b.behind
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
