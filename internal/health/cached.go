package health

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errNoAnswer: the database did not answer in time.
var errNoAnswer = errors.New("no answer in time")

// cached is an answer that is asked for by one at a time, within a bound, and holds for a while. Whoever comes meanwhile waits for that
// answer and takes it, an error like any other. It is not theirs: one who goes away takes it from nobody.
type cached[T any] struct {
	ask              func(context.Context) (T, error)
	timeout, holdFor time.Duration

	mu     sync.Mutex
	at     time.Time
	answer T
	err    error
}

func (c *cached[T]) get() (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.at.IsZero() && time.Since(c.at) < c.holdFor {
		return c.answer, c.err
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), c.timeout, errNoAnswer)
	defer cancel()
	c.answer, c.err = c.ask(ctx)
	c.at = time.Now()
	return c.answer, c.err
}
