package reconcile

import (
	"context"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"berth/lifecycle"
)

// traced begins the span of a call to a backend, where the job that led to it has one. Else nothing is begun, and the span is nil.
func traced(ctx context.Context, p *place) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, nil
	}
	attributes := []attribute.KeyValue{
		attribute.String("berth.provisioner", p.provisioner), attribute.String("berth.kind", string(lifecycle.KindFor(string(p.desired)))),
		attribute.String("berth.resource_type", p.typ), attribute.String("berth.resource_id", p.id.String()),
	}
	if p.deployment != uuid.Nil {
		attributes = append(attributes, attribute.String("berth.deployment_id", p.deployment.String()))
	}
	return parent.TracerProvider().Tracer("berth/reconcile").Start(ctx, "call provisioner", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
}

// endSpan ends it with what came of the call, in words that may be seen.
func endSpan(span trace.Span, o *outcome) {
	if span == nil {
		return
	}
	if o == nil {
		span.SetStatus(codes.Error, "cut off")
	} else {
		span.SetAttributes(attribute.String("berth.phase", string(o.seen)), attribute.String("berth.reason", o.reason))
		if o.failed {
			span.SetStatus(codes.Error, o.message)
		}
	}
	span.End()
}
