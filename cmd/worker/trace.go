package main

import (
	"context"
	"log/slog"
	"slices"

	"github.com/alecthomas/kong"

	"berth/internal/telemetry"
)

// untraced are commands that are no single act, and those that have nothing to do with a worker's work.
var untraced = []string{"run", "dev", "bench", "healthcheck", "config check"}

// traces is where this process sends what it traces, if the environment says so.
func (a *app) traces(ctx context.Context, logger *slog.Logger) (*telemetry.Telemetry, error) {
	endpoint, _ := a.lookupEnv(telemetry.EnvEndpoint)
	t, err := telemetry.Start(ctx, endpoint, programVersion(), logger)
	if err != nil {
		return nil, &usageError{err.Error()}
	}
	return t, nil
}

// traced runs a command, as one span with what comes of it where it is traced.
func (a *app) traced(ctx context.Context, command *kong.Context) error {
	name := command.Selected().FullPath()
	if slices.ContainsFunc(untraced, func(u string) bool { return name == "worker "+u }) {
		return command.Run(a)
	}
	traces, err := a.traces(ctx, a.log("warn"))
	if err != nil {
		return err
	}
	defer traces.Stop(context.WithoutCancel(ctx))
	a.tracing = traces
	ctx, end := traces.Begin(ctx, name)
	defer end()
	command.BindTo(ctx, (*context.Context)(nil))
	return command.Run(a)
}
