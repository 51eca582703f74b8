package main

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the queue tells of its routine is written by who debugs; its warnings always are.
func TestQueueLogger(t *testing.T) {
	t.Parallel()
	for level, want := range map[string]int{"debug": 4, "info": 2, "warn": 2, "error": 1} {
		var out buffer
		l := queueLogger(newLogger(&out, level, func(string) (string, bool) { return "", false }))
		l = l.With(slog.String("queue", "a")).WithGroup("g")
		l.Debug("looked")
		l.Info("counted", slog.Int("jobs", 1))
		l.Warn("slow")
		l.Error("lost")
		got := out.String()
		require.Equal(t, want, strings.Count(got, "\n"), got)
		require.Contains(t, got, `"level":"ERROR","msg":"lost","queue":"a"`)
		if level == "debug" {
			require.Contains(t, got, `"level":"DEBUG","msg":"counted","queue":"a","g":{"jobs":1}`)
		}
	}
}
