// Package telemetry sends what is traced to a collector, where the environment names one. Where it names none, nothing of it runs.
//
// Spans hold no argument of a statement, no address of a database, and of errors only what Berth itself says of them: what libraries
// say may quote what they were given.
package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"berth/internal/defaults"
)

// EnvEndpoint names a collector, such as http://localhost:4318, that takes OTLP over HTTP. The other variables of OpenTelemetry count
// too, once this one is set.
const EnvEndpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"

// Telemetry is where a process sends what it traces. Nil traces nothing: all methods may be called.
type Telemetry struct{ provider *sdk.TracerProvider }

// Start begins to send to the collector at an endpoint. An empty one is none, and what it returns is nil then. It connects to nothing
// yet, and a collector that does not answer holds nothing up: what can not be sent is dropped.
func Start(ctx context.Context, endpoint, version string, log *slog.Logger) (*Telemetry, error) {
	if endpoint == "" {
		return nil, nil
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("%s: it is not the address of a collector: write it as http://host:4318", EnvEndpoint) // it may hold a password
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(u.JoinPath("v1", "traces").String()))
	if err != nil {
		return nil, fmt.Errorf("send traces: %w", err)
	}
	// What the environment says of the service comes last, and counts.
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithFromEnv(), resource.WithAttributes(attribute.String("service.version", version)))
	if err != nil {
		return nil, fmt.Errorf("send traces: %w", err)
	}
	if _, named := about.Set().Value("service.name"); !named {
		if about, err = resource.Merge(about, resource.NewSchemaless(attribute.String("service.name", "berth-worker"))); err != nil {
			return nil, fmt.Errorf("send traces: %w", err)
		}
	}
	return &Telemetry{sdk.NewTracerProvider(sdk.WithBatcher(&quiet{SpanExporter: exporter, log: log}), sdk.WithResource(about))}, nil
}

// Provider is the provider of spans, nil if nothing is traced.
func (t *Telemetry) Provider() trace.TracerProvider {
	if t == nil {
		return nil
	}
	return t.provider
}

// Statements traces the statements of a pool, where they belong to something that is traced; nil if nothing is.
func (t *Telemetry) Statements() pgx.QueryTracer {
	if t == nil {
		return nil
	}
	return otelpgx.NewTracer(
		otelpgx.WithTracerProvider(t.provider), otelpgx.WithMeterProvider(noop.NewMeterProvider()), otelpgx.WithSpanNameCtxFunc(statement), otelpgx.WithQuerySpanNamePrefix(),
		otelpgx.WithDisableAcquireTracer(), otelpgx.WithDisableConnectionDetailsInAttributes(), otelpgx.WithDisableSQLStatementInAttributes(),
	)
}

// statement names one: as its query is called, or what it does.
func statement(ctx context.Context, sql string) string {
	if rest, ok := strings.CutPrefix(strings.TrimSpace(sql), "-- name: "); ok {
		if name, _, ok := strings.Cut(rest, " "); ok {
			return name
		}
	}
	return otelpgx.SQLOperationName(ctx, sql)
}

// Begin begins a span of what a person asked for. Call end when it is done.
func (t *Telemetry) Begin(ctx context.Context, name string) (_ context.Context, end func()) {
	if t == nil {
		return ctx, func() {}
	}
	ctx, span := t.provider.Tracer("berth/cmd").Start(ctx, name)
	return ctx, func() { span.End() }
}

// Untraced is for what is done again and again: nothing that is begun with it belongs to a trace.
func Untraced(ctx context.Context) context.Context { return trace.ContextWithSpan(ctx, nil) }

// Stop sends what is left, as far as that is possible in a short time.
func (t *Telemetry) Stop(ctx context.Context) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, defaults.TraceFlush)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // what could not be sent was logged
}
