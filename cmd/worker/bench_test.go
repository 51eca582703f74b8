package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// All measurements that need no cluster run to their end. What they say of so small sizes means nothing.
func TestBench(t *testing.T) {
	t.Parallel()
	r := worker(t.Context(), nil, "bench", "--quick", "--no-fsync")
	require.Zero(t, r.status, r.stderr)
	for _, line := range []string{"backlog  ratio of 100 deployments to no-ops", "latency  median ", "reserve  spread: ratio of", "reserve  pack: ratio of",
		"cluster-latency, cluster-rate, cluster-watch: not measured: give --kubeconfig FILE"} {
		require.Contains(t, r.stdout, line)
	}
}

// What can not be measured is refused before anything is started, with the flag, its value and what to do.
func TestBenchRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kubeconfig := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	const nobody = `{apiVersion: v1, kind: Config, current-context: here, contexts: [{name: here, context: {cluster: here}}], ` +
		`clusters: [{name: here, cluster: {server: "http://127.0.0.1:1"}}]}`
	silent := kubeconfig("silent", nobody)
	const templates = "../../examples/kubernetes/runtime"
	broken := filepath.Join(dir, "broken")
	require.NoError(t, os.Mkdir(broken, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(broken, "deployment.yaml"), []byte("apiVersion: v1\nkind: Service\n"), 0o600))
	for name, c := range map[string]struct {
		args []string
		said []string
	}{
		"nothing of the name":     {[]string{"--only", "nothing"}, []string{`--only: "nothing" is not measured: choose of backlog,`, "cluster-watch"}},
		"no cluster":              {[]string{"--only", "cluster-rate"}, []string{`--only: "cluster-rate" is measured on a cluster: give --kubeconfig FILE`}},
		"not on a cluster":        {[]string{"--only", "latency", "--kubeconfig", silent}, []string{`--only: "latency" is not measured on a cluster: leave --kubeconfig out`}},
		"a namespace of none":     {[]string{"--namespace", "tenants"}, []string{`--namespace: "tenants" is one of a cluster, and none is named: give --kubeconfig FILE`}},
		"no such file":            {[]string{"--kubeconfig", dir + "/none", "--templates", templates}, []string{"--kubeconfig: ", `/none"`, "can not be read: no such file or directory: name a kubeconfig file"}},
		"no kubeconfig":           {[]string{"--kubeconfig", kubeconfig("text", "hello"), "--templates", templates}, []string{"--kubeconfig: ", "is not a kubeconfig file"}},
		"a cluster that is down":  {[]string{"--kubeconfig", silent, "--templates", templates}, []string{"--kubeconfig: ", "/silent", "connection refused: start it, or name the file of one that answers"}},
		"no templates":            {[]string{"--kubeconfig", silent, "--templates", dir + "/none"}, []string{"--templates: ", `/none" holds no template: name a directory of *.yaml`}},
		"templates with a fault":  {[]string{"--kubeconfig", silent, "--templates", broken}, []string{"--templates: ", "deployment.yaml", "kind is Service, where deployment wants Deployment"}},
		"templates without a pod": {[]string{"--kubeconfig", silent, "--templates", "../../examples/kubernetes/stateful"}, []string{"--templates: ", "makes no Deployment, and for one the yardstick waits: name"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := worker(t.Context(), nil, append([]string{"bench", "--quick"}, c.args...)...)
			require.NotZero(t, r.status)
			require.Empty(t, r.stdout)
			for _, text := range c.said {
				require.Contains(t, r.stderr, text)
			}
		})
	}
}
