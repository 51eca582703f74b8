package reconcile

import (
	"context"
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
	breaker *breaker
	standing
}

func newBackend(name string, p provisioner.Provisioner) *backend {
	b := &backend{Provisioner: p, name: name, changed: newChanges(), breaker: newBreaker()}
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
