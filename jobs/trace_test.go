package jobs

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"berth/db/dbtest"
)

// The caller's span travels with the job, whatever the caller traces with; who has none leaves nothing in the job.
func TestInsertCarriesTheSpan(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	i, err := NewInserter(slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	metadata := func(ctx context.Context) (text string) {
		id := uuid.New()
		require.NoError(t, pgx.BeginFunc(ctx, d.Pool, func(tx pgx.Tx) error {
			return i.Wake(ctx, tx, []Wake{{Kind: Provision, ResourceID: id, Provisioner: "a"}})
		}))
		require.NoError(t, d.Pool.QueryRow(t.Context(), `SELECT metadata::text FROM berth.river_job WHERE args ->> 'resource_id' = $1`, id.String()).Scan(&text))
		return text
	}
	require.JSONEq(t, `{}`, metadata(t.Context()))

	remote := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	require.JSONEq(t, `{"traceparent": "00-01000000000000000000000000000000-0200000000000000-01"}`, metadata(trace.ContextWithRemoteSpanContext(t.Context(), remote)),
		"a caller whose provider is not known is carried on as it is")

	recorder := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder))
	ctx, span := provider.Tracer("admin").Start(t.Context(), "create")
	text := metadata(ctx)
	span.End()
	ended := recorder.Ended()
	require.Len(t, ended, 2, "the insert is a span of the caller's provider")
	require.Equal(t, "river.insert_many", ended[0].Name())
	require.Equal(t, span.SpanContext().SpanID(), ended[0].Parent().SpanID())
	require.JSONEq(t, `{"traceparent": "00-`+span.SpanContext().TraceID().String()+"-"+ended[0].SpanContext().SpanID().String()+`-01"}`, text)
}

// A run is a part of the trace of its insert, and begins one of its own where what stands in the metadata is none.
func TestRunIsTraced(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	recorder := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder))
	var mu sync.Mutex
	seen := map[uuid.UUID]trace.SpanContext{}
	client, err := NewClient(d.Pool, Config{Logger: slog.New(slog.DiscardHandler), Tracer: provider,
		Driver: driverFunc(func(ctx context.Context, id uuid.UUID, _ string) error {
			mu.Lock()
			defer mu.Unlock()
			seen[id] = trace.SpanContextFromContext(ctx)
			return nil
		})})
	require.NoError(t, err)
	require.NoError(t, NewQueues(client, 0).Work("a"))
	require.NoError(t, client.Start(context.Background()))
	t.Cleanup(func() { require.NoError(t, client.StopAndCancel(context.Background())) })
	insert := func(metadata string) uuid.UUID {
		id := uuid.New()
		_, err := d.Pool.Exec(t.Context(), `INSERT INTO berth.river_job (kind, args, queue, max_attempts, metadata)
			VALUES ('provision_resource', jsonb_build_object('resource_id', $1::text, 'provisioner', 'a'), 'provisioner-a', 25, $2)`, id.String(), metadata)
		require.NoError(t, err)
		return id
	}
	traced := insert(`{"traceparent": "00-01000000000000000000000000000000-0200000000000000-01"}`)
	others := []uuid.UUID{insert(`{}`), insert(`{"traceparent": "nonsense"}`), insert(`{"traceparent": 5}`), insert(`{"traceparent": null}`)}
	eventually(t, d, 5, `SELECT count(*) FROM berth.river_job WHERE state = 'completed'`)
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, trace.TraceID{1}, seen[traced].TraceID())
	for _, s := range recorder.Ended() {
		require.Equal(t, "river.work/provision_resource", s.Name())
		if s.SpanContext().SpanID() == seen[traced].SpanID() {
			require.Equal(t, trace.SpanID{2}, s.Parent().SpanID())
		}
	}
	traces := map[trace.TraceID]bool{}
	for _, id := range others {
		require.True(t, seen[id].IsValid())
		traces[seen[id].TraceID()] = true
	}
	require.Len(t, traces, len(others))
}

// Each job that was run is told of, with what came of it.
func TestWorkedIsTold(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	ends := map[uuid.UUID]func(context.Context) error{}
	want := map[string]int{}
	for outcome, f := range map[string]func(context.Context) error{
		Completed:   func(context.Context) error { return nil },
		Failed:      func(context.Context) error { return errors.New("no") },
		Panicked:    func(context.Context) error { panic("no") },
		Cancelled:   func(context.Context) error { return river.JobCancel(errors.New("no")) },
		Snoozed:     func(context.Context) error { return river.JobSnooze(time.Hour) },
		Interrupted: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		ends[uuid.New()] = f
		want[outcome] = 1
	}
	told := make(chan string, 100)
	client, err := NewClient(d.Pool, Config{Logger: slog.New(slog.DiscardHandler),
		Driver: driverFunc(func(ctx context.Context, id uuid.UUID, _ string) error { return ends[id](ctx) }),
		Worked: func(kind, outcome string, took time.Duration) {
			if kind == "provision_resource" && took > 0 {
				told <- outcome
			}
		}})
	require.NoError(t, err)
	require.NoError(t, NewQueues(client, 0).Work("a"))
	require.NoError(t, client.Start(context.Background()))
	i, err := NewInserter(slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	var wakes []Wake
	for id := range ends {
		wakes = append(wakes, Wake{Kind: Provision, ResourceID: id, Provisioner: "a"})
	}
	require.NoError(t, pgx.BeginFunc(t.Context(), d.Pool, func(tx pgx.Tx) error { return i.Wake(t.Context(), tx, wakes) }))
	got := map[string]int{}
	for len(got) < len(want)-1 { // what failed is told again when it is tried again
		got[<-told] = 1
	}
	require.NoError(t, client.StopAndCancel(context.Background()))
	for len(got) < len(want) {
		got[<-told] = 1
	}
	require.Equal(t, want, got)
}
