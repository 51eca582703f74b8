package trials

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A host is a runtime as far as a pool can see: it answers pings, in the way that it is told to.
type host struct {
	t      *testing.T
	addr   string
	server *http.Server
	served chan struct{}
	way    atomic.Pointer[http.HandlerFunc]
	open   atomic.Int32 // pings that are not answered yet
	most   atomic.Int32 // at once
}

// newHost starts one that serves.
func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{t: t, addr: "127.0.0.1:0"}
	h.answers(after(0))
	h.up()
	t.Cleanup(h.down)
	return h
}

func (h *host) url() string { return "http://" + h.addr }

// up has it listen, where it did before.
func (h *host) up() {
	h.t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp4", h.addr)
	require.NoError(h.t, err)
	h.addr = listener.Addr().String()
	h.server, h.served = &http.Server{Handler: h, ReadHeaderTimeout: patience}, make(chan struct{})
	go func() {
		defer close(h.served)
		_ = h.server.Serve(listener)
	}()
}

// down has it refuse connections, and ends those that there are.
func (h *host) down() {
	_ = h.server.Close()
	<-h.served
}

// ServeHTTP answers as it was told.
func (h *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || r.URL.Path != "/v1/ping" {
		http.NotFound(w, r)
		return
	}
	n := h.open.Add(1)
	defer h.open.Add(-1)
	for most := h.most.Load(); n > most; most = h.most.Load() {
		h.most.CompareAndSwap(most, n)
	}
	(*h.way.Load())(w, r)
}

func newHosts(t *testing.T, n int) []*host {
	t.Helper()
	hosts := make([]*host, n)
	for i := range hosts {
		hosts[i] = newHost(t)
	}
	return hosts
}

func (h *host) answers(way http.HandlerFunc) { h.way.Store(&way) }

// after answers 200 after a while.
func after(d time.Duration) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(d):
		case <-r.Context().Done():
		}
	}
}

// with answers with a status.
func with(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

// hanging never answers.
func hanging(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// pool is a static pool of hosts with so many slots each.
func pool(t *testing.T, strategy string, slots int, hosts ...*host) backend {
	t.Helper()
	var runtimes []map[string]any
	for _, h := range hosts {
		runtimes = append(runtimes, map[string]any{"host": h.url(), "slots": slots})
	}
	spec, err := json.Marshal(map[string]any{"strategy": strategy, "runtimes": runtimes})
	require.NoError(t, err)
	return backend{Type: "static", Spec: spec}
}

// both are a world and a pool with room for so many, whose steps take their time.
func both(t *testing.T, room int, delay time.Duration) map[string]backend {
	t.Helper()
	hosts := newHosts(t, 5)
	for _, h := range hosts {
		h.answers(after(delay))
	}
	return map[string]backend{"world": {Type: "world", Delay: delay}, "pool": pool(t, "spread", (room+4)/5, hosts...)}
}
