package kubernetes

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"berth/provisioner"
)

const kubeconfig = `apiVersion: v1
kind: Config
current-context: one
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: secret-token}}]
contexts: [{name: one, context: {cluster: c, user: u}}, {name: broken, context: {cluster: gone, user: u}}]
`

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestSpecDefaults(t *testing.T) {
	t.Parallel()
	s, err := ReadSpec("k8s-a", rawSpec(t, templates(t, "testdata/base"), map[string]any{"kubeconfig_path": writeFile(t, kubeconfig)}), provisioner.Options{})
	require.NoError(t, err)
	require.Equal(t, time.Minute, s.timeout)
	require.Equal(t, "/v1/ping", s.pingPath)
	require.Equal(t, []int{50, 100, 0}, []int{s.qps, s.burst, s.concurrency})
	require.Equal(t, provisioner.DefaultSlot, s.slot)
	require.Empty(t, s.Warnings())

	s, err = ReadSpec("k8s-a", rawSpec(t, nil, map[string]any{
		"kubeconfig_path": writeFile(t, kubeconfig), "context": "one", "ping_path": "", "qps": 7, "burst": 9, "max_concurrency": 3,
		"slot": map[string]any{"cpu": 2, "memory_gb": 1, "storage_gb": 5}, "template_paths": map[string]string{},
	}), provisioner.Options{})
	require.NoError(t, err)
	require.Empty(t, s.pingPath)
	require.Equal(t, []int{7, 9, 3}, []int{s.qps, s.burst, s.concurrency})
	require.Equal(t, provisioner.Slot{CPU: 2, MemoryGB: 1, StorageGB: 5}, s.slot)
	require.Equal(t, []string{"template_paths: names no template: a resource would consist of nothing"}, lines(s.Warnings()))
}

// All that is wrong is told in one go, in the order in which it stands there.
func TestSpecFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec string
		want []string
	}{
		"nothing": {`{}`, []string{
			"timeout_seconds: missing", "host: missing", "namespace: missing", "image: missing", "template_paths: missing",
		}},
		"everything": {`{"timeout_seconds": 0, "data_dir": 1, "host": "node.example.com", "namespace": "No_Such", "image": "UPPER:1:2",
			"kubeconfig_path": "testdata/none.yaml", "qps": "5", "burst": 2.0, "max_concurrency": 1e1, "ping_path": "v1/ping", "slot": {"cpu": 0, "ram": 1},
			"template_paths": {"deployment": "testdata/none.yaml", "pvc": "testdata", "Bad Key": "testdata/base/pvc.yaml", "service": ""}, "timout": 1}`, []string{
			"timeout_seconds: 0 is not a number of seconds: write a whole number from 1 to 86400",
			"data_dir: 1 is not text", `host: "node.example.com" has no scheme http or https`, `namespace: "No_Such" is not the name of a namespace`,
			`image: "UPPER:1:2" is not the name of an image`, `kubeconfig_path: "testdata/none.yaml" can not be read: no such file or directory`,
			`qps: "5" is text and not a number of requests a second: write 5, without quotes`, "burst: 2.0 is not a number of requests at once: write 2",
			"max_concurrency: 1e1 is not a number of calls at once: write 10", `ping_path: "v1/ping" is not the path of a URL`,
			"slot.cpu: 0 is not a number of CPUs", "slot.ram: unknown key",
			`template_paths.deployment: "testdata/none.yaml" can not be read: no such file or directory`, `template_paths.pvc: "testdata" is not a file`,
			`template_paths["Bad Key"]: "testdata/base/pvc.yaml" has a key that can be no part of a name`, `template_paths.service: "" is empty`,
			"timout: unknown key",
		}},
		"in other notations": {`{"timeout_seconds": "30", "timeout_seconds": 30, "QPS": 5, "host": null, "namespace": "n", "image": "i", "template_paths": []}`, []string{
			`timeout_seconds: "30" is text and not a number of seconds: write 30, without quotes`, "timeout_seconds: written twice", "QPS: unknown key: did you mean qps",
			"host: null is not text", "template_paths: a list is not an object",
		}},
		"context of no file": {`{"timeout_seconds": 1, "host": "http://*.a", "namespace": "n", "image": "i", "template_paths": {}, "context": "x"}`, []string{
			`context: "x" is a context of no file`,
		}},
	} {
		_, err := ReadSpec("k", json.RawMessage(c.spec), provisioner.Options{})
		got := lines(provisioner.FaultsOf(err))
		require.Len(t, got, len(c.want), "%s: %s", name, strings.Join(got, "\n"))
		for i, want := range c.want {
			require.True(t, strings.HasPrefix(got[i], want), "%s: %s\nwant %s", name, got[i], want)
		}
	}
}

func TestKubeconfigFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, context, want string }{
		"no YAML":          {"{", "", `kubeconfig_path: .* is not a kubeconfig file`},
		"empty":            {"", "", `kubeconfig_path: .* has no current context`},
		"context not in":   {kubeconfig, "two", `context: "two" is not in `},
		"cluster not in":   {kubeconfig, "broken", `kubeconfig_path: .* does not have the cluster "gone" of context "broken"`},
		"current not in":   {strings.Replace(kubeconfig, "current-context: one", "current-context: two", 1), "", `does not have its current context "two"`},
		"user not in":      {strings.Replace(kubeconfig, "name: u,", "name: v,", 1), "", `does not have the user "u" of context "one"`},
		"no secret quoted": {strings.Replace(kubeconfig, "token: secret-token", "token: [secret-token]", 1), "", `is not a kubeconfig file$`},
	} {
		_, err := ReadSpec("k", rawSpec(t, nil, map[string]any{"kubeconfig_path": writeFile(t, c.text), "context": c.context, "template_paths": map[string]string{}}), provisioner.Options{})
		require.Len(t, provisioner.FaultsOf(err), 1, name)
		require.Regexp(t, c.want, err.Error(), name)
		require.NotContains(t, err.Error(), "secret-token")
	}
}

// Two files of one name are two files; one file, by whatever name, is one.
func TestFilesNamedTwice(t *testing.T) {
	t.Parallel()
	a, b := writeFile(t, "apiVersion: v1\nkind: ConfigMap\n"), writeFile(t, "apiVersion: v1\nkind: ConfigMap\n")
	require.Equal(t, filepath.Base(a), filepath.Base(b))
	mustRead(t, map[string]string{"one": a, "two": b})
	link := filepath.Join(t.TempDir(), "link.yaml")
	require.NoError(t, os.Symlink(a, link))
	for _, again := range []string{a, filepath.Dir(a) + "/./file.yaml", link} {
		_, faults := readTest(t, map[string]string{"one": a, "two": again})
		require.Len(t, faults, 1)
		require.Contains(t, faults[0].Error(), "is the same file as template_paths.one: name each file once")
	}
}

func TestImages(t *testing.T) {
	t.Parallel()
	digest := strings.Repeat("0", 64)
	for text, want := range map[string]string{
		"rilldata/rill":                         "rilldata/rill:1.2.3",
		"r":                                     "r:1.2.3",
		"localhost:5000/a/b":                    "localhost:5000/a/b:1.2.3",
		"localhost:5000/a/b:v7":                 "localhost:5000/a/b:v7",
		"a/b@sha256:" + digest:                  "a/b@sha256:" + digest,
		"Registry.example/a:1@sha256:" + digest: "Registry.example/a:1@sha256:" + digest,
		"a b":                                   "", "a:": "", "A": "", "a@sha256:1": "", "a\nb": "", "": "", "a/../b": "",
	} {
		i, ok := readImage(text)
		require.Equal(t, want != "", ok, text)
		if ok {
			name, tag := i.at("1.2.3")
			require.Equal(t, want, name+":"+tag)
		}
	}
	s, err := ReadSpec("k", rawSpec(t, templates(t, "testdata/base"), map[string]any{"image": "a/b:v7"}), provisioner.Options{})
	require.NoError(t, err)
	require.Equal(t, []string{`image: "a/b:v7" is pinned: every version that is asked for runs this one: leave the tag out to run the version that is asked for`}, lines(s.Warnings()))
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	paths := written(t, map[string]string{"service": "apiVersion: v1\nkind: Service\n"})
	read := func(o provisioner.Options, more map[string]any) string {
		s, err := ReadSpec("k", rawSpec(t, paths, more), o)
		require.NoError(t, err)
		return s.Fingerprint()
	}
	first := read(provisioner.Options{}, nil)
	require.Equal(t, first, read(provisioner.Options{}, nil))
	require.NotEqual(t, first, read(provisioner.Options{RuntimeVersion: "1.2.3"}, nil))
	require.NotEqual(t, first, read(provisioner.Options{}, map[string]any{"qps": 9}))
	require.NoError(t, os.WriteFile(paths["service"], []byte("apiVersion: v1\nkind: Service\nspec: {type: ClusterIP}\n"), 0o600))
	require.NotEqual(t, first, read(provisioner.Options{}, nil))
}

func TestNames(t *testing.T) {
	t.Parallel()
	s := mustRead(t, written(t, map[string]string{"service_rcon": "apiVersion: v1\nkind: Service\nmetadata: {name: \"{{ .Names.service_rcon }}\"}\n", "settings": "apiVersion: v1\nkind: ConfigMap\n"}))
	id := testResource.ProvisionID()
	require.Empty(t, cmp.Diff(Names{
		"HTTPIngress": "http-runtime-" + id, "GRPCIngress": "grpc-runtime-" + id, "Service": "runtime-" + id, "Deployment": "runtime-" + id, "PVC": "runtime-" + id,
		"service_rcon": "service-rcon-" + id, "settings": "settings-" + id,
	}, s.names(id)))
	objects := mustRender(t, s, provisioner.RuntimeArgs{Slots: 1})
	require.Equal(t, []string{"settings-" + id, "service-rcon-" + id}, []string{objects[0].GetName(), objects[1].GetName()}, "a name that is left out is given")
}

// The spec of the example is without fault and without warning.
func TestExampleSpec(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../examples/kubernetes/runtime/provisioners.json")
	require.NoError(t, err)
	var set map[string]struct{ Spec json.RawMessage }
	require.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(string(raw), `"examples/`, `"../../examples/`)), &set))
	s, err := ReadSpec("kubernetes-example", set["kubernetes-example"].Spec, provisioner.Options{})
	require.NoError(t, err)
	require.Empty(t, s.Warnings())
	require.Len(t, s.files, 5)
}
