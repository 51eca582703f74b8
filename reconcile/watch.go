package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/google/uuid"

	"berth/internal/defaults"
	"berth/provisioner"
)

// watch has a backend say what changed, until ctx ends. Changes that come close together are one wake-up.
func (e *Engine) watch(ctx context.Context, b *backend, w provisioner.Watcher) {
	for {
		err := watchOnce(ctx, w, func(id uuid.UUID) { b.changed.add(id) })
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("it gave no reason")
		}
		e.log.Warn("watch ended early and is begun again", slog.String("provisioner", b.name), slog.Any("error", said{err}))
		if !pause(ctx, defaults.WatchPause) {
			return
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

// wakeChanged wakes what changed, until ctx ends. What could not be woken is tried again in a while, and holds up nothing else.
func (e *Engine) wakeChanged(ctx context.Context, b *backend) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.changed.ready:
		}
		for ids := range slices.Chunk(b.changed.take(), defaults.DispatchBatch) {
			held, err := e.wakeOnce(ctx, b.name, ids)
			wait := defaults.WakeRetry // somebody has it locked, for a moment most often: its outcome is being stored
			if err != nil {
				held, wait = ids, defaults.WatchPause
			}
			if err != nil && ctx.Err() == nil {
				e.log.Warn("wake what changed", slog.String("provisioner", b.name), slog.Any("error", err))
			}
			if len(held) > 0 {
				e.loops.Go(func() {
					if pause(ctx, wait) {
						b.changed.add(held...)
					}
				})
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

func newChanges() *changes {
	return &changes{ids: map[uuid.UUID]bool{}, ready: make(chan struct{}, 1)}
}

func (c *changes) add(ids ...uuid.UUID) {
	if len(ids) == 0 {
		return
	}
	c.mu.Lock()
	for _, id := range ids {
		c.ids[id] = true
	}
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
