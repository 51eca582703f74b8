package stub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// headerTimeout bounds how long a client may take to ask.
const headerTimeout = 5 * time.Second

// A Runtime answers GET /v1/ping on loopback with 200, and everything else with 404.
type Runtime struct {
	port   int
	server *http.Server
	served sync.WaitGroup
}

// Start begins to serve on a port of 127.0.0.1, or on any free one where that is taken. Close ends it.
func Start(ctx context.Context, port int) (*Runtime, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp4", address(port))
	if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EACCES) {
		listener, err = config.Listen(ctx, "tcp4", address(0))
	}
	if err != nil {
		return nil, fmt.Errorf("start a stub runtime: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/ping", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"version":"stub"}`+"\n")
	})
	r := &Runtime{
		port:   listener.Addr().(*net.TCPAddr).Port,
		server: &http.Server{Handler: mux, ReadHeaderTimeout: headerTimeout},
	}
	r.served.Go(func() { _ = r.server.Serve(listener) })
	return r, nil
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// URL is where it answers, such as http://127.0.0.1:9001.
func (r *Runtime) URL() string { return "http://" + address(r.port) }

// Close ends it, connections included. It may be called again.
func (r *Runtime) Close() error {
	err := r.server.Close()
	r.served.Wait()
	return err
}
