package jobs

import (
	"context"
	"encoding/json"

	"github.com/riverqueue/river/rivertype"
	"github.com/riverqueue/rivercontrib/otelriver"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
)

var (
	_ rivertype.JobInsertMiddleware = (*tracing)(nil)
	_ rivertype.WorkerMiddleware    = (*tracing)(nil)
)

// tracing has the run of a job be a part of the trace in which it was inserted: the caller's span is in the job's metadata, as W3C has
// it. Who inserts without a span inserts as if this were not there.
type tracing struct{ *otelriver.Middleware }

// newTracing makes one whose runs are spans of a provider. Of inserts only callers know the provider, so it is theirs.
func newTracing(provider trace.TracerProvider) *tracing {
	return &tracing{otelriver.NewMiddleware(&otelriver.MiddlewareConfig{
		TracerProvider: provider, EnableTracePropagation: true, EnableWorkSpanJobKindSuffix: true,
		MeterProvider: noop.NewMeterProvider(), // its metrics have ids of deployments in their attributes
	})}
}

// InsertMany is called for every insert of jobs.
func (t *tracing) InsertMany(ctx context.Context, jobs []*rivertype.JobInsertParams, doInner func(context.Context) ([]*rivertype.JobInsertResult, error)) ([]*rivertype.JobInsertResult, error) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return doInner(ctx)
	}
	return t.Middleware.InsertMany(ctx, jobs, doInner)
}

// Work is called for every run of a job.
func (t *tracing) Work(ctx context.Context, job *rivertype.JobRow, doInner func(context.Context) error) error {
	var from struct{ Traceparent, Tracestate string }
	if json.Unmarshal(job.Metadata, &from) == nil && from.Traceparent != "" { // whatever else stands there, it begins a trace of its own
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": from.Traceparent, "tracestate": from.Tracestate})
	}
	return t.Middleware.Work(ctx, job, doInner)
}

// callers is a provider of spans that leaves each to the provider of the span that the context has.
type callers struct{ embedded.TracerProvider }

// Tracer returns a tracer of that provider.
func (callers) Tracer(name string, options ...trace.TracerOption) trace.Tracer {
	return callersTracer{name: name, options: options}
}

type callersTracer struct {
	embedded.Tracer
	name    string
	options []trace.TracerOption
}

// Start begins a span in the trace that the context has.
func (t callersTracer) Start(ctx context.Context, span string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	return trace.SpanFromContext(ctx).TracerProvider().Tracer(t.name, t.options...).Start(ctx, span, options...)
}
