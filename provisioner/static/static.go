package static

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"berth/internal/defaults"
	"berth/provisioner"
)

// Type is what a configured entry calls this kind of provisioner.
const Type = "static"

var (
	_ provisioner.Provisioner = (*Static)(nil)
	_ provisioner.Watcher     = (*Static)(nil)
	_ provisioner.Activator   = (*Static)(nil)
	_ io.Closer               = (*Static)(nil)
)

// Static is one pool of runtimes. Make it with [Factory]. Safe for concurrent use.
type Static struct {
	pool  Pool
	spec  spec
	store Store
	pings *pinger
	times times

	mu     sync.Mutex
	served map[uuid.UUID]bool // got room and are not woken yet
	ready  chan struct{}      // holds something when served does
}

// times are the intervals of a pool, set by tests alone.
type times struct{ ping, assign, probe time.Duration }

// Factory makes pools that count their slots in a store.
func Factory(store Store) provisioner.Factory {
	return factory(store, nil, times{ping: defaults.PingTimeout, assign: defaults.AssignEvery, probe: defaults.ProbeEvery})
}

// factory makes pools whose pings go through a transport; nil is one of their own.
func factory(store Store, via http.RoundTripper, t times) provisioner.Factory {
	return func(name string, raw json.RawMessage, _ provisioner.Options) (provisioner.Provisioner, error) {
		c, err := readSpec(raw)
		if err != nil {
			return nil, err
		}
		v := via
		if v == nil {
			v = transport()
		}
		return &Static{
			pool: Pool{Name: name, Pack: c.pack}, spec: c, store: store, pings: newPinger(v, t.ping), times: t,
			served: map[uuid.UUID]bool{}, ready: make(chan struct{}, 1),
		}, nil
	}
}

// Info says that a pool holds runtimes.
func (s *Static) Info() provisioner.Info {
	return provisioner.Info{Types: []provisioner.ResourceType{provisioner.Runtime}}
}

// Activate writes the hosts of this configuration. The provisioner has to be registered. Repeat-safe.
func (s *Static) Activate(ctx context.Context) error {
	served, err := s.store.Declare(ctx, s.pool, s.spec.hosts)
	if err != nil {
		return fmt.Errorf("declare the runtimes of %s: %w", s.pool.Name, err)
	}
	s.wake(served)
	return nil
}

// Close ends the pings that are under way. No call is made after it.
func (s *Static) Close() error {
	s.pings.close()
	return nil
}

// wake notes who got room. Whoever watches tells them; if nobody in this process does, another one finds them by their rows.
func (s *Static) wake(served []uuid.UUID) {
	if len(served) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.served) > maxServed {
		clear(s.served)
	}
	for _, id := range served {
		s.served[id] = true
	}
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// maxServed bounds what is noted where nobody watches.
const maxServed = 10_000

// woken returns who got room since it was last asked.
func (s *Static) woken() []uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]uuid.UUID, 0, len(s.served))
	for id := range s.served {
		ids = append(ids, id)
	}
	clear(s.served)
	return ids
}
