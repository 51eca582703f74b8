package reconcile

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"berth/internal/defaults"
	"berth/provisioner"
)

// watch wakes what a backend says has changed, until ctx ends. Changes that come close together are one wake-up.
func (e *Engine) watch(ctx context.Context, b *backend, w provisioner.Watcher) {
	c := &changes{ready: make(chan struct{}, 1), ids: map[uuid.UUID]bool{}}
	e.loops.Go(func() { e.wakeChanged(ctx, b.name, c) })
	for ctx.Err() == nil {
		if err := watchOnce(ctx, w, c.add); err != nil && ctx.Err() == nil {
			e.log.Warn("watch ended early and is begun again", slog.String("provisioner", b.name), slog.Any("error", err))
			pause(ctx, defaults.WatchPause)
		}
	}
}

func watchOnce(ctx context.Context, w provisioner.Watcher, changed func(uuid.UUID)) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: %v", errPanic, v)
		}
	}()
	return w.Watch(ctx, changed)
}

func (e *Engine) wakeChanged(ctx context.Context, name string, c *changes) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.ready:
		}
		ids := c.take()
		if err := e.Wake(ctx, name, ids...); err != nil && ctx.Err() == nil {
			e.log.Warn("wake what changed", slog.String("provisioner", name), slog.Any("error", err))
			for _, id := range ids {
				c.add(id)
			}
			select {
			case <-time.After(defaults.WatchPause):
			case <-ctx.Done():
			}
		}
	}
}

// changes collects ids without blocking whoever reports them.
type changes struct {
	mu    sync.Mutex
	ids   map[uuid.UUID]bool
	ready chan struct{}
}

func (c *changes) add(id uuid.UUID) {
	c.mu.Lock()
	c.ids[id] = true
	c.mu.Unlock()
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

func (c *changes) take() []uuid.UUID {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := make([]uuid.UUID, 0, len(c.ids))
	for id := range c.ids {
		ids = append(ids, id)
	}
	clear(c.ids)
	return ids
}
