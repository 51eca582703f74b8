package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"berth/internal/defaults"
)

var (
	// errFenced: the lease was lost; nothing was stored, and nothing is to be.
	errFenced = errors.New("the lease was lost")
	// errBusy: someone holds the deployment or the place.
	errBusy = errors.New("held by someone")
)

// store commits an outcome. While someone holds what that needs, or the database is away, the outcome waits in memory and not
// on a job's slot or a connection: its lease keeps others away, and the dispatcher finds the place if this process dies.
func (e *Engine) store(o *outcome) {
	for try := range defaults.CommitTries {
		if try > 0 && !pause(e.serving, defaults.CommitPause) {
			break
		}
		if e.commit(o) {
			return
		}
	}
	e.parked.Go(func() {
		for time.Now().Before(o.until) && pause(e.serving, defaults.ParkPause) {
			if e.commit(o) {
				return
			}
		}
		if !time.Now().Before(o.until) {
			e.leasesLost.Add(1)
		}
		e.log.Warn("an outcome could not be stored in time; the place is looked at anew",
			slog.String("resource_id", o.id.String()), slog.String("provisioner", o.provisioner))
		// Its notes need no deployment to be stored, and nothing is counted against the place.
		e.giveBackLast([]lease{{o.id, o.fence, o.state}})
	})
}

// commit reports whether the outcome needs no further try.
func (e *Engine) commit(o *outcome) bool {
	o.result = make(chan error, 1)
	if !e.outcomes.put(e.serving, o) {
		return false
	}
	err := <-o.result
	switch {
	case err == nil:
		return true
	case errors.Is(err, errFenced):
		e.leasesLost.Add(1)
		e.log.Info("an outcome came too late and was dropped", slog.String("resource_id", o.id.String()), slog.String("provisioner", o.provisioner))
		return true
	case !errors.Is(err, errBusy):
		e.log.Warn("an outcome could not be stored yet", slog.String("resource_id", o.id.String()), slog.String("provisioner", o.provisioner), slog.Any("error", err))
	}
	return false
}

// pause waits for about d; false if ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d + rand.N(d))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
