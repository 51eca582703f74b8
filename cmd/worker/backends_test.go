package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"berth/lifecycle"
	"berth/provisioner/set"
)

// examples are the templates that come along.
const examples = "../../examples/kubernetes/runtime/"

// cluster is a set with one cluster, the API server of which is at an address with https, and a user of a kubeconfig for it. Without TLS
// client-go would leave out who it is.
func cluster(t *testing.T, server, user string) map[string]string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig.yaml")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: here
clusters: [{name: here, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: worker, user: %s}]
contexts: [{name: here, context: {cluster: here, user: worker}}]
`, server, user), 0o600))
	text, err := json.Marshal(map[string]any{"k8s-a": map[string]any{"type": "kubernetes", "spec": map[string]any{
		"timeout_seconds": 300, "host": "http://node-*.localhost", "namespace": "tenants", "image": "registry.example.test/runtime", "kubeconfig_path": path,
		"template_paths": map[string]string{"deployment": examples + "deployment.yaml", "pvc": examples + "pvc.yaml", "service": examples + "service.yaml"},
	}}})
	require.NoError(t, err)
	return map[string]string{set.EnvSet: string(text), set.EnvDefault: "k8s-a"}
}

// says waits until what a deployment says is the matter holds a text.
func (b *testBundle) says(id, text string) (d lifecycle.Deployment) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		d = decode[lifecycle.Deployment](b.t, b.ok("deployment", "show", id, "-o", "json"))
		return strings.Contains(d.Message, text)
	}, patience, 20*time.Millisecond)
	return d
}

// linesAreOurs checks that a process which has ended wrote lines of JSON to stderr and nothing else.
func (p *process) linesAreOurs() {
	p.t.Helper()
	require.NotEmpty(p.t, p.stderr.String())
	for line := range strings.Lines(p.stderr.String()) {
		require.True(p.t, json.Valid([]byte(line)), line)
	}
}

// A cluster that can not be reached when a worker starts is a warning: the worker is up, what is asked for waits and says why, and the
// breaker keeps the worker from asking again and again.
func TestRunWithoutACluster(t *testing.T) {
	t.Parallel()
	b := setup(t).with(cluster(t, "https://127.0.0.1:1", "{token: hunter2}"))
	b.ok("org", "create", "acme")
	b.ok("project", "create", "acme/web")
	var ids []string
	for range 5 {
		ids = append(ids, uuid.NewString())
		b.ok("deployment", "create", "acme/web", "--id", ids[len(ids)-1])
	}
	p := start(t, b.env, "run")
	p.line(p.stdout, "ready")
	warned := p.line(p.logged, "does not answer and is left alone")
	require.Contains(t, warned, `"level":"WARN"`)
	require.Contains(t, warned, "127.0.0.1:1: connect: connection refused")
	require.Eventually(t, func() bool {
		return decode[[]map[string]any](t, b.ok("provisioner", "list", "-o", "json"))[0]["status"] == "breaker_open"
	}, patience, 20*time.Millisecond)
	for _, id := range ids {
		d := b.says(id, "connection refused")
		require.Equal(t, lifecycle.Pending, d.State)
		require.Equal(t, "BackendUnavailable", d.Reason)
		require.Zero(t, d.Resources[0].Failures, "it is no failure of theirs")
	}
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 0, p.wait().ExitStatus(), p.stderr.String())
	require.NotContains(t, p.stderr.String(), "hunter2")
	p.linesAreOurs()
}
