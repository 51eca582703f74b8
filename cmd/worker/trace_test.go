package main

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"berth/internal/telemetry"
)

// receiver is a collector of traces.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*otlp.Span
	text  strings.Builder // all that arrived, as text
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		raw, err := io.ReadAll(request.Body)
		var all collector.ExportTraceServiceRequest
		if err != nil || request.URL.Path != "/v1/traces" || proto.Unmarshal(raw, &all) != nil {
			t.Errorf("no traces: %s %v", request.URL, err)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.text.WriteString(all.String())
		for _, of := range all.GetResourceSpans() {
			for _, in := range of.GetScopeSpans() {
				r.spans = append(r.spans, in.GetSpans()...)
			}
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// named returns the spans of a name in one trace, or of any for an empty one.
func (r *receiver) named(name, trace string) (found []*otlp.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if s.GetName() == name && (trace == "" || hex.EncodeToString(s.GetTraceId()) == trace) {
			found = append(found, s)
		}
	}
	return found
}

// attribute is one of a span, empty if it has none of that name.
func attribute(s *otlp.Span, name string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == name {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

// One trace leads from what an admin asked for, through the insert of the job and its run, to the call of the backend. Nothing of it
// tells what the statements were about, or where the database is.
func TestTrace(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	g := newGate(t)
	g.open()
	b := setup(t).with(pool(t, 4, g.URL))
	b.ok("org", "create", "acme")
	b.ok("project", "create", "acme/web", "--annotation", "colour=ultramarine")
	b.env[telemetry.EnvEndpoint] = r.URL
	p := start(t, b.env, "run")
	p.line(p.stdout, "ready")
	id := uuid.NewString()
	b.ok("deployment", "create", "acme/web", "--id", id, "--wait", patience.String())
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 0, p.wait().ExitStatus(), p.stderr.String())

	commands := r.named("worker deployment create", "")
	require.Len(t, commands, 1)
	trace := hex.EncodeToString(commands[0].GetTraceId())
	inserts := r.named("river.insert_many", trace)
	require.Len(t, inserts, 1)
	require.Equal(t, commands[0].GetSpanId(), inserts[0].GetParentSpanId())
	runs := r.named("river.work/provision_resource", trace)
	require.NotEmpty(t, runs)
	require.Equal(t, inserts[0].GetSpanId(), runs[0].GetParentSpanId())
	calls := r.named("call provisioner", trace)
	require.NotEmpty(t, calls)
	require.Equal(t, runs[0].GetSpanId(), calls[0].GetParentSpanId())
	require.Equal(t, "static-example", attribute(calls[0], "berth.provisioner"))
	require.Equal(t, "provision_resource", attribute(calls[0], "berth.kind"))
	require.Equal(t, id, attribute(calls[0], "berth.deployment_id"))
	require.Len(t, r.named("batch query DeploymentInsert", trace), 1, "statements are named as their queries are")

	require.Equal(t, 1, b.count(`SELECT count(*) FROM berth.river_job WHERE jsonb_typeof(metadata) = 'object' AND metadata ->> 'traceparent' LIKE '%' || $1 || '%'`, trace))
	require.Len(t, r.named("query DeploymentGet", trace), 1, "looks while it waits are no part of it")
	for _, secret := range []string{b.db.URL, "ultramarine", "postgres://", "host=", " FROM "} {
		require.False(t, strings.Contains(r.text.String(), secret), "a span holds %s", secret)
	}
}

// Without the variable nothing is traced, and an address that is none is told; one where nobody answers holds nothing up.
func TestTraceNowhere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.ok("org", "create", "acme")
	b.env[telemetry.EnvEndpoint] = "http://127.0.0.1:1"
	b.ok("org", "create", "other")
	for _, none := range []string{"collector:4318", "http://", "ftp://u:hunter2@collector"} {
		b.env[telemetry.EnvEndpoint] = none
		said := b.refused(exitUsage, "org", "list")
		require.Contains(t, said, telemetry.EnvEndpoint)
		require.NotContains(t, said, "hunter2")
	}
}
