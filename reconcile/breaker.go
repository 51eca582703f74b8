package reconcile

import (
	"context"
	"sync"
	"time"

	"berth/internal/defaults"
)

// breaker keeps this process from a backend that as a whole does not answer. It opens when that was so a few times in a row. While
// it is open one try is made at a time, after pauses that grow; an answer, whatever it says, closes it.
type breaker struct {
	turned chan struct{} // it opened or closed since somebody looked

	mu     sync.Mutex
	silent int       // calls in a row that were not answered
	down   time.Time // since the first of them; zero if it answered when last asked
	open   bool
	opened int // how often it did
	why    string
	trying bool // a try is under way
	wanted bool // one is due and nothing waits for it: whoever comes next is it
}

func newBreaker() *breaker { return &breaker{turned: make(chan struct{}, 1)} }

// answered notes that the backend as a whole does.
func (b *breaker) answered() {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.open
	b.silent, b.down, b.open, b.wanted = 0, time.Time{}, false, false
	if was {
		b.turn()
	}
}

// unanswered notes that it does not, and why. It returns for how long to leave it alone, and whether the breaker is open.
func (b *breaker) unanswered(now time.Time, why string) (time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.why = why
	if b.silent++; b.down.IsZero() {
		b.down = now
	}
	if b.silent >= defaults.BreakerAfter && !b.open {
		b.open, b.opened = true, b.opened+1
		b.turn()
	}
	return b.wait(now), b.open
}

// wait is longer the longer it has been so, whatever the number of the backend's resources.
func (b *breaker) wait(now time.Time) time.Duration {
	return min(max(now.Sub(b.down)/2, defaults.UnavailWait), defaults.UnavailMax)
}

func (b *breaker) turn() {
	select {
	case b.turned <- struct{}{}:
	default:
	}
}

// state returns whether it is open, why, and how often it opened.
func (b *breaker) state() (open bool, why string, opened int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open, b.why, b.opened
}

func (b *breaker) isOpen() bool {
	open, _, _ := b.state()
	return open
}

// admit reports whether a run that comes by itself may begin, and whether it is the try that is due. Then tried has to be called.
func (b *breaker) admit() (pass, try bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		return true, false
	}
	if !b.wanted || b.trying {
		return false, false
	}
	b.wanted, b.trying = false, true
	return true, true
}

// try reports whether a try may be made now. Then tried has to be called.
func (b *breaker) try() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open || b.trying {
		return false
	}
	b.wanted, b.trying = false, true
	return true
}

// tried ends a try. If there was nothing to try it with, whoever comes next is it.
func (b *breaker) tried(nothing bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trying, b.wanted = false, nothing && b.open
}

// rest waits until the next try is due, or it closed; false if ctx ended.
func (b *breaker) rest(ctx context.Context, now time.Time) bool {
	b.mu.Lock()
	wait := b.wait(now)
	b.mu.Unlock()
	t := time.NewTimer(jitter(wait))
	defer t.Stop()
	select {
	case <-t.C:
	case <-b.turned:
	case <-ctx.Done():
		return false
	}
	return true
}
