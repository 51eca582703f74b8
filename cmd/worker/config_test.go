package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"berth/provisioner/set"
)

// poolSet is a set of one pool, as a person writes it.
const poolSet = `{
  // the only one
  "static-example": {
    "type": "static",
    "spec": {"runtimes": [
      {"host": "http://10.0.0.1:8081", "slots": 50, "data_dir": "/mnt/data", "audience_url": "http://10.0.0.1:8081"},
    ]},
  },
}`

func configuredWith(text, name string) map[string]string {
	return map[string]string{set.EnvSet: text, set.EnvDefault: name}
}

func TestConfigCheck(t *testing.T) {
	t.Parallel()
	r := worker(t.Context(), configuredWith(poolSet, "static-example"), "config", "check")
	require.Zero(t, r.status, r.stderr)
	require.Empty(t, r.stderr)
	shown := decode[map[string]struct {
		Type string
		Spec map[string]any
	}](t, r.stdout)
	require.Equal(t, "static", shown["static-example"].Type)
	require.Len(t, shown["static-example"].Spec["runtimes"], 1)

	byFlag := worker(t.Context(), configuredWith("nonsense", "nobody"), "config", "check", "--provisioner-set", poolSet, "--default-provisioner", "static-example")
	require.Equal(t, r, byFlag, "a flag beats the environment")

	r = worker(t.Context(), nil, "config", "check")
	require.Equal(t, exitRefused, r.status)
	require.Contains(t, r.stderr, set.EnvSet)
	require.Contains(t, r.stderr, set.EnvDefault)
	require.Empty(t, r.stdout)
}

// Every fault of a file is told in one report, each with its place.
func TestConfigFaults(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason, file, report, defaultName string
	}{
		"Numbers":    {"what Go's decoder takes without a word, and numbers in other notations", "faults.json", "config_faults.txt", "s"},
		"Everything": {"each kind of fault once: keys, names, types, hosts, slots, and a default that is not there", "faults_all.json", "config_faults_all.txt", "static"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(filepath.Join("testdata", c.file))
			require.NoError(t, err)
			r := worker(t.Context(), configuredWith(string(raw), c.defaultName), "config", "check")
			require.Equal(t, exitRefused, r.status, c.reason)
			require.Empty(t, r.stdout, c.reason)
			require.NotContains(t, r.stderr, "hunter2")
			for line := range strings.Lines(r.stderr) {
				require.True(t, strings.HasPrefix(line, "worker: "), line)
			}
			golden(t, c.report, r.stderr)
		})
	}
}

// A set that names files is refused for all of them that are not there, and accepted once they are.
func TestConfigOfBothTypes(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../provisioner/set/testdata/readme.json")
	require.NoError(t, err)
	r := worker(t.Context(), configuredWith(string(raw), "static-example"), "config", "check")
	require.Equal(t, exitRefused, r.status)
	require.Empty(t, r.stdout)
	golden(t, "config_example.txt", r.stderr)

	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig.yaml")
	require.NoError(t, os.WriteFile(kubeconfig, []byte(`apiVersion: v1
kind: Config
current-context: here
clusters: [{name: here, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: worker, user: {token: hunter2}}]
contexts: [{name: here, context: {cluster: here, user: worker}}]
`), 0o600))
	there := strings.NewReplacer(`"templates/`, `"`+examples, `"kubeconfig.yaml"`, strconv.Quote(kubeconfig)).Replace(string(raw))
	r = worker(t.Context(), configuredWith(there, "static-example"), "config", "check")
	require.Zero(t, r.status, r.stderr)
	require.Empty(t, r.stderr)
	require.NotContains(t, r.stdout, "hunter2")
	shown := decode[map[string]struct{ Type string }](t, r.stdout)
	require.Equal(t, "kubernetes", shown["kubernetes-example"].Type)
	require.Equal(t, "static", shown["static-example"].Type)
}

// A worker, and every command that would register what is configured, refuses faults before it connects to anything.
func TestFaultsBeforeConnecting(t *testing.T) {
	t.Parallel()
	env := configuredWith(`{"a": {"type": "static", "spec": {"runtimes": [{"host": "x", "slots": 0}]}}}`, "b")
	env["DATABASE_URL"] = "postgres://u@127.0.0.1:1/nowhere"
	for _, command := range []string{"run", "migrate up", "org create acme"} {
		r := worker(t.Context(), env, strings.Fields(command)...)
		require.Equal(t, exitRefused, r.status, "%s: %s", command, r.stderr)
		require.Contains(t, r.stderr, "slots")
	}
}

func TestConfigSecret(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	text, err := json.Marshal(map[string]any{"static-example": map[string]any{"type": "static", "spec": map[string]any{
		"token": secret, "runtimes": []any{map[string]any{"host": "http://user:" + secret + "@10.0.0.1", "slots": 1}}}}})
	require.NoError(t, err)
	r := worker(t.Context(), configuredWith(string(text), "static-example"), "config", "check")
	require.Equal(t, exitRefused, r.status)
	require.NotContains(t, r.stdout+r.stderr, secret)
}
