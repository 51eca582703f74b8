package static_test

import (
	"fmt"
	"io"
	"net/http"
	"sync"
)

// serving is a transport for hosts that do not exist: each answers 200 but those that are down.
type serving struct {
	mu   sync.Mutex
	down map[string]bool // by host and port
}

// RoundTrip answers a ping.
func (s *serving) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down[r.URL.Host] {
		return nil, fmt.Errorf("dial %s: connection refused", r.URL.Host)
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(http.NoBody), Request: r}, nil
}

func (s *serving) set(host string, down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down == nil {
		s.down = map[string]bool{}
	}
	s.down[host] = down
}
