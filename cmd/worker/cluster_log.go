package main

import (
	"context"
	"log/slog"
	"sync/atomic"

	"k8s.io/klog/v2"
)

// client-go, with which clusters are reached, logs for the whole process, in lines of its own to stderr, and takes another logger only
// before anything else runs. So it gets one that hands on to whichever is known later; until then nothing is written. What it has to
// say of a call is in the error of the call too, so all of it counts as debugging.
func init() { klog.SetSlogLogger(slog.New(clusterLog{func(h slog.Handler) slog.Handler { return h }})) }

// clusterLogs is where it goes; nil for nowhere.
var clusterLogs atomic.Pointer[slog.Handler]

// clusterLogsTo has what client-go logs written by a logger, at the level of debugging.
func clusterLogsTo(l *slog.Logger) {
	var h slog.Handler = routine{l.With(slog.String("library", "client-go")).Handler(), allOfIt}
	clusterLogs.Store(&h)
}

// clusterLog is a handler in front of the one that there is when something is logged.
type clusterLog struct {
	with func(slog.Handler) slog.Handler // what was added to it
}

// Enabled says whether a record of this level is written.
func (c clusterLog) Enabled(ctx context.Context, l slog.Level) bool {
	h := clusterLogs.Load()
	return h != nil && (*h).Enabled(ctx, l)
}

// Handle writes a record.
func (c clusterLog) Handle(ctx context.Context, record slog.Record) error {
	h := clusterLogs.Load()
	if h == nil || !(*h).Enabled(ctx, record.Level) {
		return nil
	}
	return c.with(*h).Handle(ctx, record)
}

// WithAttrs is what every handler has.
func (c clusterLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return clusterLog{func(h slog.Handler) slog.Handler { return c.with(h).WithAttrs(attrs) }}
}

// WithGroup is what every handler has.
func (c clusterLog) WithGroup(name string) slog.Handler {
	return clusterLog{func(h slog.Handler) slog.Handler { return c.with(h).WithGroup(name) }}
}
