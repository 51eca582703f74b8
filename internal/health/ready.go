package health

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"berth/db"
)

// Failed is a check that failed. The reason is for everybody to read: of what the database says it holds no word.
type Failed struct {
	Check  string `json:"check"`
	Reason string `json:"reason"`
}

// Readiness is the answer of /readyz.
type Readiness struct {
	Ready  bool     `json:"ready"`
	Failed []Failed `json:"failed"`
}

// The checks, by the names that the answer has.
const (
	checkWorker    = "worker"    // it has started and is not about to stop
	checkDatabase  = "database"  // a connection of the pool answers
	checkSchema    = "schema"    // is the one that this worker knows
	checkClock     = "clock"     // is the database's, or close
	checkQueue     = "queue"     // its client runs
	checkHeartbeat = "heartbeat" // arrives, so that the worker may act
)

// serveReady answers 200 where all checks pass, else 503.
func (s *Server) serveReady(w http.ResponseWriter, _ *http.Request) {
	r := s.readiness()
	text, err := json.Marshal(r)
	if err != nil {
		http.Error(w, "the answer can not be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !r.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write(append(text, '\n'))
}

func (s *Server) readiness() Readiness {
	failed := s.failed()
	if s.stopping.Load() { // whatever was said before
		failed = []Failed{{checkWorker, "it is stopping"}}
	}
	r := Readiness{Ready: len(failed) == 0, Failed: failed}
	if r.Ready {
		r.Failed = []Failed{}
	}
	return r
}

func (s *Server) failed() []Failed {
	switch {
	case s.stopping.Load():
		return nil
	case s.worker.Load() == nil:
		return []Failed{{checkWorker, "it has not started yet"}}
	}
	failed, _ := s.ready.get() // what fails is in the answer
	return failed
}

// check runs the checks and logs a change.
func (s *Server) check(ctx context.Context) []Failed {
	failed := s.checkAll(ctx, s.worker.Load())
	var names []string
	for _, f := range failed {
		names = append(names, f.Check)
	}
	is := strings.Join(names, " ")
	switch {
	case is == s.was || s.stopping.Load():
	case is == "":
		s.log.Info("ready again")
	default:
		s.log.Warn("not ready", slog.Any("failed", failed))
	}
	s.was = is
	return failed
}

// checkAll runs the checks. What needs the database is left out where it does not answer.
func (s *Server) checkAll(ctx context.Context, w *Worker) (failed []Failed) {
	fail := func(check, reason string) { failed = append(failed, Failed{check, reason}) }
	select {
	case <-w.Queue.Stopped():
		fail(checkQueue, "its client has stopped")
	default:
	}
	if !w.Engine.Alive() {
		fail(checkHeartbeat, "the last one is too old: other workers may take over")
	}
	var schema *db.SchemaError
	switch err := db.RequireCurrent(ctx, w.Pool); {
	case errors.As(err, &schema):
		fail(checkSchema, schema.Error())
	case err != nil:
		fail(checkDatabase, s.unanswered(ctx, err))
		return failed
	}
	var clock *db.ClockError
	switch err := db.RequireClock(ctx, w.Pool, s.now); {
	case errors.As(err, &clock):
		fail(checkClock, clock.Error())
	case err != nil:
		fail(checkDatabase, s.unanswered(ctx, err))
	}
	return failed
}

// unanswered says that the database did not answer. What it or the network said is in the log, and only there.
func (s *Server) unanswered(ctx context.Context, err error) string {
	s.log.Debug("the database did not answer a check", slog.Any("error", err))
	if errors.Is(context.Cause(ctx), errNoAnswer) {
		return errNoAnswer.Error()
	}
	return "it can not be asked: see the worker's log"
}
