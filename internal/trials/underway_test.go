package trials

import "sync"

// underWay is what has begun and not ended.
type underWay struct {
	mu   sync.Mutex
	open map[chan struct{}]bool
}

// begin notes something until it ends.
func (u *underWay) begin() (ended func()) {
	end := make(chan struct{})
	u.mu.Lock()
	if u.open == nil {
		u.open = map[chan struct{}]bool{}
	}
	u.open[end] = true
	u.mu.Unlock()
	return func() {
		u.mu.Lock()
		delete(u.open, end)
		u.mu.Unlock()
		close(end)
	}
}

// drain waits for the end of all that is under way now.
func (u *underWay) drain() {
	u.mu.Lock()
	var open []chan struct{}
	for end := range u.open {
		open = append(open, end)
	}
	u.mu.Unlock()
	for _, end := range open {
		<-end
	}
}
