package telemetry

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// quiet sends spans without what libraries say of errors, and tells once when they can not be sent.
type quiet struct {
	sdk.SpanExporter
	log     *slog.Logger
	failing atomic.Bool
}

// ExportSpans never fails: nobody could do anything about it but log it, which is done.
func (q *quiet) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	hushed := make([]sdk.ReadOnlySpan, len(spans))
	for i, s := range spans {
		hushed[i] = s
		if !strings.HasPrefix(s.InstrumentationScope().Name, "berth/") {
			hushed[i] = hush{s}
		}
	}
	err := q.SpanExporter.ExportSpans(ctx, hushed)
	if was := q.failing.Swap(err != nil); err != nil && !was {
		q.log.Warn("traces can not be sent and are dropped", slog.Any("error", err))
	}
	return nil
}

// hush is a span of a library: whether it failed, and not what was said of that.
type hush struct{ sdk.ReadOnlySpan }

// Status is without its description.
func (h hush) Status() sdk.Status { return sdk.Status{Code: h.ReadOnlySpan.Status().Code} }

// Events are errors as they were recorded. There are none.
func (h hush) Events() []sdk.Event { return nil }
