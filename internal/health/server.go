package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"berth/internal/defaults"
)

// An Engine is what is asked of a worker's engine. No method blocks.
type Engine interface {
	Alive() bool               // it may act: its heartbeat arrives
	LeasesLost() uint64        // that this process had
	TakeOvers() uint64         // of others' leases by this process
	Breakers() map[string]bool // whether the breaker of each configured provisioner is open
}

// A Worker is a process that takes jobs, once it does.
type Worker struct {
	Pool   *pgxpool.Pool
	Engine Engine
	Queue  interface{ Stopped() <-chan struct{} } // the client of the queue, started
}

// A Server answers. All methods are safe for concurrent use.
type Server struct {
	worker   atomic.Pointer[Worker] // nil until it takes jobs
	stopping atomic.Bool
	ready    *cached[[]Failed]
	metrics  *metrics
	now      func() time.Time
	log      *slog.Logger
	http     http.Server
	serving  sync.WaitGroup
	was      string // what failed when it was last checked, to tell of a change once
}

// New makes a server that says that the worker lives and is not ready. The clock is the one that the worker acts by.
func New(version string, now func() time.Time, logger *slog.Logger) *Server {
	s := &Server{now: now, log: logger}
	s.ready = &cached[[]Failed]{ask: func(ctx context.Context) ([]Failed, error) { return s.check(ctx), nil }, timeout: defaults.ReadyTimeout, holdFor: defaults.ReadyFor}
	s.metrics = newMetrics(version, &s.worker, logger)
	s.http = http.Server{
		Handler: s.handler(), ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: defaults.HeaderTimeout, ReadTimeout: defaults.AnswerTimeout, WriteTimeout: defaults.AnswerTimeout,
		IdleTimeout: defaults.IdleTimeout, MaxHeaderBytes: 16 << 10,
	}
	return s
}

// handler has three pages and no other; each is read and never written to.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /readyz", s.serveReady)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}))
	return mux
}

// Serve answers on a listener until Close.
func (s *Server) Serve(l net.Listener) {
	s.serving.Go(func() {
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("health and metrics are not served any more", slog.Any("error", err))
		}
	})
}

// Started says that the worker takes jobs. From now on it is ready when its checks pass.
func (s *Server) Started(w Worker) { s.worker.Store(&w) }

// Stopping says that the worker is about to stop taking jobs. From now on it is not ready.
func (s *Server) Stopping() { s.stopping.Store(true) }

// Close ends the server. Answers that are under way get until ctx ends.
func (s *Server) Close(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("stop answering over HTTP: %w", err), s.http.Close())
	}
	s.serving.Wait()
	return err
}

// Worked counts a job.
func (s *Server) Worked(kind, outcome string, took time.Duration) {
	s.metrics.jobs.With(prometheus.Labels{"kind": kind, "outcome": outcome}).Inc()
	s.metrics.duration.With(prometheus.Labels{"kind": kind}).Observe(took.Seconds())
}
