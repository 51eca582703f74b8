package provisionertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Steps is the point between a backend's code and the outside. A harness puts each exchange, reading or writing, through Do;
// the suite arms it to interrupt one. An exchange is what happens or does not happen as a whole: a statement, a transaction, a
// request. The zero value interrupts nothing; a nil *Steps does the same. Safe for concurrent use.
type Steps struct {
	mu     sync.Mutex
	count  int
	names  []string
	armed  *interruption
	outage error
}

// manner is how an exchange is interrupted.
type manner string

const (
	refused    manner = "refused"                  // not done, and an error
	replyLost  manner = "done but its reply lost"  // done, and an error
	killed     manner = "never begun by a kill"    // not done, and the process is gone
	killedDone manner = "done and then a kill"     // done, and the process is gone
	cut        manner = "begun as the context end" // the context ends, then it is tried
	cutDone    manner = "done as the context end"  // done, then the context ends
	frozen     manner = "frozen"                   // the process stands still before it, and goes on later
	hung       manner = "without an answer"        // nothing, until the context ends
)

// failing and endings are the manners after which the same call is tried again: those in which the call hears of it, and those in which it,
// or the process, ends.
var failing, endings = []manner{refused, replyLost}, []manner{killed, killedDone, cut, cutDone}

// manners are those in which one of these exchanges is interrupted.
func (e *env) manners(names []string, at int) []manner {
	switch {
	case e.spared(names, at):
		return nil
	case e.h.Sparing:
		return []manner{failing[at%len(failing)], endings[at%len(endings)]}
	}
	return slices.Concat(failing, endings)
}

// spared reports whether one of these exchanges is left alone: it is neither the first nor the last of its name.
func (e *env) spared(names []string, at int) bool {
	return e.h.Sparing && slices.Contains(names[:at], names[at]) && slices.Contains(names[at+1:], names[at])
}

type interruption struct {
	at      int
	how     manner
	cancel  context.CancelFunc
	reached chan struct{}
	release chan struct{}
}

// kill is what goes up the stack where a process would be gone.
type kill struct{}

var errInterrupted = errors.New("connection reset by peer")

// Do does one exchange, named for people, unless it is the one to interrupt.
func (s *Steps) Do(ctx context.Context, name string, exchange func(context.Context) error) error {
	if s == nil {
		return exchange(ctx)
	}
	s.mu.Lock()
	at, armed, outage := s.count, s.armed, s.outage
	s.count++
	s.names = append(s.names, name)
	s.mu.Unlock()

	if outage != nil {
		return fmt.Errorf("%s: %w", name, outage)
	}
	if armed == nil || at != armed.at {
		return exchange(ctx)
	}
	close(armed.reached)
	switch armed.how {
	case refused:
		return fmt.Errorf("%s: %w", name, errInterrupted)
	case replyLost:
		if err := exchange(ctx); err != nil {
			return err
		}
		return fmt.Errorf("%s: %w", name, errInterrupted)
	case killed:
		panic(kill{})
	case killedDone:
		_ = exchange(ctx) // nobody hears of it
		panic(kill{})
	case cut:
		armed.cancel()
		return exchange(ctx)
	case cutDone:
		defer armed.cancel()
		return exchange(ctx)
	case hung:
		<-ctx.Done()
		return ctx.Err()
	case frozen:
		<-armed.release
	}
	return exchange(ctx)
}

// reset counts from zero again and interrupts nothing.
func (s *Steps) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count, s.names, s.armed = 0, nil, nil
}

// arm interrupts the exchange number at, counted from now.
func (s *Steps) arm(at int, how manner, cancel context.CancelFunc) *interruption {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count, s.names = 0, nil
	s.armed = &interruption{at: at, how: how, cancel: cancel, reached: make(chan struct{}), release: make(chan struct{})}
	return s.armed
}

func (i *interruption) happened() bool {
	select {
	case <-i.reached:
		return true
	default:
		return false
	}
}

// seen returns the names of the exchanges since the last reset.
func (s *Steps) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.names...)
}

// black makes every exchange fail until light is called.
func (s *Steps) black(outage error) (light func()) {
	set := func(err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.outage = err
	}
	set(outage)
	return func() { set(nil) }
}
