package main

import (
	"io"
	"log/slog"
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
