package trials

import (
	"fmt"
	"strings"
	"sync"
)

// A moment is when, about a statement, a call, or a request that writes to a cluster.
type moment string

const (
	before   moment = "before"   // a statement or a request is sent
	sent     moment = "sent"     // and not answered yet
	answered moment = "answered" // by the server, and nobody has read it
	begun    moment = "begun"    // a call, and nothing is done yet
	done     moment = "done"     // everything outside, and the engine does not know
)

// A hold is where a worker stands still and says so, until it is told to go on.
type hold struct {
	When   moment
	What   string // a part of a statement's text, the method that is called, or what a request does: see written
	Commit bool   // at the COMMIT of the transaction that the statement is part of
	Skip   int    // so many times it passes first
}

func (h hold) String() string {
	what := h.What
	if h.Commit {
		what = "the commit of " + what
	}
	return fmt.Sprintf("%s %s", h.When, what)
}

// holds is where a worker is to stand still: at one place at a time, once.
type holds struct {
	say func(string) // tells the test
	on  chan struct{}

	mu    sync.Mutex
	armed *hold
}

func newHolds(say func(string)) *holds { return &holds{say: say, on: make(chan struct{})} }

func (h *holds) arm(at hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.armed = &at
}

// pass stands still if this is the place, and reports whether it did.
func (h *holds) pass(when moment, what string, commit bool) (held bool) {
	if held = h.here(when, what, commit); held {
		h.say("at")
		<-h.on
	}
	return held
}

func (h *holds) here(when moment, what string, commit bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.armed == nil || h.armed.When != when || h.armed.Commit != commit || !strings.Contains(what, h.armed.What) {
		return false
	}
	if h.armed.Skip > 0 {
		h.armed.Skip--
		return false
	}
	h.armed = nil
	return true
}
