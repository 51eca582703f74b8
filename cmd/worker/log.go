package main

import (
	"context"
	"io"
	"log/slog"
	"math"
	"time"

	"github.com/lmittmann/tint"

	"berth/internal/terminal"
)

// newLogger writes lines for people on a terminal, and JSON elsewhere.
func newLogger(w io.Writer, level string, lookupEnv func(string) (string, bool)) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelInfo // the flag allows no other
	}
	if !terminal.IsTerminal(w) {
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: l}))
	}
	noColor, set := lookupEnv("NO_COLOR")
	return slog.New(tint.NewTextHandler(w, &tint.Options{Level: l, TimeFormat: time.TimeOnly, NoColor: set && noColor != ""}))
}

// queueLogger is the logger of the queue. What River tells of its routine, some lines a minute, counts as debugging.
func queueLogger(l *slog.Logger) *slog.Logger {
	return slog.New(routine{l.Handler(), slog.LevelWarn})
}

// allOfIt is above every level.
const allOfIt = slog.Level(math.MaxInt)

// routine lowers everything below a level to debugging.
type routine struct {
	slog.Handler
	below slog.Level
}

func (r routine) lowered(l slog.Level) slog.Level {
	if l < r.below {
		return min(l, slog.LevelDebug)
	}
	return l
}

// Enabled says whether a record of this level is written, lowered.
func (r routine) Enabled(ctx context.Context, l slog.Level) bool {
	return r.Handler.Enabled(ctx, r.lowered(l))
}

// Handle writes a record, lowered.
func (r routine) Handle(ctx context.Context, record slog.Record) error {
	record.Level = r.lowered(record.Level)
	return r.Handler.Handle(ctx, record)
}

// WithAttrs is what every handler has.
func (r routine) WithAttrs(attrs []slog.Attr) slog.Handler {
	return routine{r.Handler.WithAttrs(attrs), r.below}
}

// WithGroup is what every handler has.
func (r routine) WithGroup(name string) slog.Handler {
	return routine{r.Handler.WithGroup(name), r.below}
}
