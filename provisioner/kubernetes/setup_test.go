package kubernetes

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"berth/provisioner"
)

const testID = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"

var testResource = provisioner.Resource{ID: uuid.MustParse(testID), Type: provisioner.Runtime}

// testData is the data of a file of testdata.
func testData(t *testing.T, name string) Data {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	var d Data
	require.NoError(t, json.Unmarshal(raw, &d))
	return d
}

func testArgs(t *testing.T, name string) provisioner.RuntimeArgs {
	t.Helper()
	d := testData(t, name)
	return provisioner.RuntimeArgs{Slots: d.Slots, Version: d.Version, Environment: d.Environment, Annotations: d.Annotations}
}

// templates are those of a folder, by their names.
func templates(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		all[strings.TrimSuffix(filepath.Base(f), ".yaml")] = f
	}
	return all
}

// written are templates of these texts.
func written(t *testing.T, texts map[string]string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for key, text := range texts {
		all[key] = filepath.Join(t.TempDir(), key+".yaml")
		require.NoError(t, os.WriteFile(all[key], []byte(text), 0o600))
	}
	return all
}

// rawSpec is a whole spec with these templates, and what else is said of it.
func rawSpec(t *testing.T, paths map[string]string, more map[string]any) json.RawMessage {
	t.Helper()
	spec := map[string]any{
		"timeout_seconds": 60, "data_dir": "/mnt/data", "host": "http://node-*.localhost", "namespace": "tenants",
		"image": "registry.example.test/tenants/runtime", "template_paths": paths,
	}
	maps.Copy(spec, more)
	raw, err := json.Marshal(spec)
	require.NoError(t, err)
	return raw
}

func readTest(t *testing.T, paths map[string]string) (*Spec, provisioner.Faults) {
	t.Helper()
	s, err := ReadSpec("k8s-a", rawSpec(t, paths, nil), provisioner.Options{})
	return s, provisioner.FaultsOf(err)
}

func mustRead(t *testing.T, paths map[string]string) *Spec {
	t.Helper()
	s, faults := readTest(t, paths)
	require.Empty(t, faults)
	return s
}

// mustRender renders the only template.
func mustRender(t *testing.T, s *Spec, args provisioner.RuntimeArgs) []Object {
	t.Helper()
	objects, err := s.Render(testResource, args, "installation")
	require.NoError(t, err)
	return objects
}

// lines are faults as texts.
func lines(faults provisioner.Faults) []string {
	var all []string
	for _, f := range faults {
		all = append(all, f.Error())
	}
	return all
}

const sampleDeployment = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Names.Deployment }}
spec:
  selector: {matchLabels: {runtime: {{ .ProvisionID | quote }}}}
  template:
    metadata: {labels: {runtime: {{ .ProvisionID | quote }}}}
    spec:
      containers:
        - name: runtime
          image: "{{ .Image }}:{{ .ImageTag }}"
`
