package reconcile

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"berth/db/dbsqlc"
	"berth/internal/defaults"
)

// Breakers are the provisioners that this process has, and whether their backends are left alone at the moment because they do not
// answer. A configuration that waits asks them nothing, so of its breaker there is nothing to tell.
func (e *Engine) Breakers() map[string]bool {
	all := make(map[string]bool, len(e.backends))
	for name, b := range e.backends {
		all[name] = b.acts.Load() && b.breaker.isOpen()
	}
	return all
}

// openBreakers are the names of those that are open.
func (e *Engine) openBreakers() []string {
	names := []string{}
	for name, open := range e.Breakers() {
		if open {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// mind tries a backend that does not answer now and then, and has all that waited for it driven once it does, until ctx ends.
func (e *Engine) mind(ctx context.Context, b *backend) {
	// Whoever did this before, when the configuration here acted once already, may have left it open, or have taken a turn of it along.
	defer b.breaker.turn()
	open, _, seen := b.breaker.state()
	if open {
		seen--
		b.breaker.turn()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.breaker.turned:
		}
		for {
			_, why, opened := b.breaker.state()
			if opened == seen {
				break
			}
			seen = opened
			select {
			case <-b.breaker.turned: // that was this
			default:
			}
			e.log.Warn("the backend of a provisioner does not answer and is left alone, but for one try at a time",
				slog.String("provisioner", b.name), slog.String("error", why))
			for b.breaker.isOpen() && b.breaker.rest(ctx, e.life.now()) {
				e.probe(ctx, b)
			}
			if ctx.Err() != nil {
				return
			}
			e.log.Info("the backend of a provisioner answers again", slog.String("provisioner", b.name))
			e.hurry(ctx, b)
		}
	}
}

// probe makes one try, with what a person waits for before anything else. What waits says why.
func (e *Engine) probe(ctx context.Context, b *backend) {
	if !b.breaker.try() {
		return
	}
	nothing := false
	defer func() { b.breaker.tried(nothing) }()
	_, why, _ := b.breaker.state()
	if !b.others.Load() { // else they wait for those
		err := batches(func() (int64, error) {
			return e.q.PlaceUnavailable(ctx, e.pool, &dbsqlc.PlaceUnavailableParams{Provisioner: b.name, Message: why, Grace: defaults.Grace, Most: defaults.DispatchBatch})
		})
		if err != nil {
			e.complain(ctx, b, fmt.Errorf("say why places wait: %w", err))
		}
	}
	rows, err := e.q.PlaceProbe(ctx, e.pool, &dbsqlc.PlaceProbeParams{Provisioner: b.name, Grace: defaults.Grace})
	if err != nil {
		e.complain(ctx, b, fmt.Errorf("find what to try: %w", err))
		return
	}
	nothing = len(rows) == 0
	for _, r := range rows {
		_ = e.attempt(ctx, b, r.ID, turn{background: r.Background, probe: true}) // it says itself what went wrong
	}
}

// hurry has all that waited for a backend due now. The dispatcher wakes it, a batch at a time.
func (e *Engine) hurry(ctx context.Context, b *backend) {
	for {
		err := batches(func() (int64, error) {
			return e.q.PlaceHurry(ctx, e.pool, &dbsqlc.PlaceHurryParams{Provisioner: b.name, Most: defaults.DispatchBatch})
		})
		if err == nil || b.breaker.isOpen() {
			return
		}
		if e.complain(ctx, b, fmt.Errorf("wake what waited: %w", err)); !pause(ctx, defaults.WatchPause) {
			return
		}
	}
}

func (e *Engine) complain(ctx context.Context, b *backend, err error) {
	if ctx.Err() == nil {
		e.log.Warn("a backend that does not answer", slog.String("provisioner", b.name), slog.Any("error", err))
	}
}

// batches repeats a step that does up to a batch, until it did less.
func batches(step func() (int64, error)) error {
	for {
		n, err := step()
		if err != nil || n < defaults.DispatchBatch {
			return err
		}
	}
}
