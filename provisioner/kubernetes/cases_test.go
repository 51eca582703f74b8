package kubernetes

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"berth/provisioner"
)

func readJSON[T any](t *testing.T, path string) T {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	var v T
	require.NoError(t, json.Unmarshal(raw, &v))
	return v
}

// Names of customers become legal labels, the same ones each time and in the pods as in the object.
func TestNamesInLabels(t *testing.T) {
	t.Parallel()
	s := mustRead(t, map[string]string{"deployment": "testdata/cases/labels/deployment.yaml"})
	for _, name := range readJSON[[]string](t, "testdata/cases/labels/organizations.json") {
		args := testArgs(t, "full.json")
		args.Annotations["organization_name"] = name
		o := mustRender(t, s, args)[0]
		want := provisioner.LabelValue(name)
		require.Equal(t, want, o.GetLabels()["customer"], name)
		require.Equal(t, want, at(o.Object, "spec.template.metadata.labels")["customer"], name)
	}
}

// What a template writes itself is its author's: an illegal label in it is a fault.
func TestIllegalLabel(t *testing.T) {
	t.Parallel()
	_, faults := readTest(t, written(t, map[string]string{"deployment": strings.Replace(sampleDeployment, "metadata:\n", "metadata:\n  labels: {team: two words}\n", 1)}))
	require.Len(t, faults, 1)
	require.Regexp(t, `deployment.yaml" line 4: "two words" can not be the value of a label`, faults[0].Error())
}

func TestHosts(t *testing.T) {
	t.Parallel()
	set := readJSON[map[string]struct{ Spec json.RawMessage }](t, "testdata/cases/hosts/provisioners.json")
	for name, want := range map[string]string{
		"label-63": "", "with-port": "",
		"label-67":   `has a part "customer-runtime-node-in-europe-w1-\*" of 67 characters with an id in it, more than 63`,
		"underscore": `holds '_'`, "upper": `holds 'N'`, "no-star": `has 0 times the \*`, "two-stars": `has 2 times the \*`,
		"no-scheme": `has no scheme http or https`, "with-path": `holds '/'`, "star-is-ip": `has the \* in its last part`,
	} {
		_, err := ReadSpec(name, set[name].Spec, provisioner.Options{})
		if want == "" {
			require.NoError(t, err, name)
			continue
		}
		require.Len(t, provisioner.FaultsOf(err), 1, name)
		require.Regexp(t, "^host: .*"+want, err.Error(), name)
	}
}

// A host with a port gives the runtime's address with it, and the name without: an Ingress takes none.
func TestHostOfTemplates(t *testing.T) {
	t.Parallel()
	s, err := ReadSpec("k", rawSpec(t, templates(t, "testdata/base"), map[string]any{"host": "http://node-*.localhost:8443"}), provisioner.Options{})
	require.NoError(t, err)
	require.Equal(t, "node-0a1b2c3d4e5f60718293a4b5c6d7e8f9.localhost", s.data(testResource.ProvisionID(), provisioner.RuntimeArgs{Slots: 1}).Host)
	c := s.RuntimeConfig(testResource, provisioner.RuntimeArgs{Slots: 2, Version: "1.2.3"})
	require.Equal(t, provisioner.RuntimeConfig{
		Host: "http://node-0a1b2c3d4e5f60718293a4b5c6d7e8f9.localhost:8443", Audience: "http://node-0a1b2c3d4e5f60718293a4b5c6d7e8f9.localhost:8443",
		DataDir: "/mnt/data", Slots: 2, Version: "1.2.3", CPU: 2, MemoryGB: 8, StorageBytes: 80_000_000_000,
	}, c)
}

// Whole numbers come out in digits, however large and whatever function they went through.
func TestIntegers(t *testing.T) {
	t.Parallel()
	s := mustRead(t, map[string]string{"deployment": "testdata/cases/integers/deployment.yaml"})
	for _, n := range readJSON[[]int64](t, "testdata/cases/integers/storage_bytes.json") {
		d := testData(t, "full.json")
		d.StorageBytes = n
		o, flaws := s.renderFile(s.files[0], d, owner{provisionID: d.ProvisionID, installation: "i"}, true)
		require.Empty(t, flaws)
		require.Equal(t, map[string]string{
			"disk-bytes": fmt.Sprint(n), "disk-gb": fmt.Sprint(n / 1e9), "twice": fmt.Sprint(n * 2), "hex-free": fmt.Sprint(n),
			"json": fmt.Sprintf(`{"disk":%d,"slots":2}`, n),
		}, o.GetAnnotations())
		container := at(o.Object, "spec.template.spec")["containers"].([]any)[0].(map[string]any)
		require.Equal(t, []any{fmt.Sprintf("--quota=%d", n), "--cpu=2"}, container["args"])
		require.Equal(t, map[string]any{"cpu": int64(2), "memory": int64(8 * 1073741824)}, at(container, "resources.requests"))
	}
	exact := mustRead(t, map[string]string{"pvc": "testdata/base/pvc.yaml"})
	d := testData(t, "full.json")
	d.StorageBytes = math.MaxInt64
	o, flaws := exact.renderFile(exact.files[0], d, owner{provisionID: d.ProvisionID}, true)
	require.Empty(t, flaws)
	require.Equal(t, int64(math.MaxInt64), at(o.Object, "spec.resources.requests")["storage"])
}

// One document in each file, whatever else stands in it.
func TestDocuments(t *testing.T) {
	t.Parallel()
	_, faults := readTest(t, templates(t, "testdata/cases/documents"))
	require.Equal(t, []string{
		`template_paths.deployment: "testdata/cases/documents/deployment.yaml" line 2: a second document begins here: only one is allowed, and the cluster would drop it without a word`,
		`template_paths.grpc_ingress: "testdata/cases/documents/grpc_ingress.yaml" line 8: a second document begins here: only one is allowed, and the cluster would drop it without a word`,
		`template_paths.pvc: "testdata/cases/documents/pvc.yaml" line 1: renders to nothing: an object is wanted`,
		`template_paths.service: "testdata/cases/documents/service.yaml" line 8: a second document begins here: only one is allowed, and the cluster would drop it without a word`,
	}, lines(faults))
}

func TestSelectorHoldsVersion(t *testing.T) {
	t.Parallel()
	_, faults := readTest(t, map[string]string{"deployment": "testdata/cases/selector/deployment.yaml"})
	require.Equal(t, []string{
		`template_paths.deployment: "testdata/cases/selector/deployment.yaml" line 8: spec.selector differs with the version, and can not be changed once it is there: use what stays the same, such as .ProvisionID`,
		`template_paths.deployment: "testdata/cases/selector/deployment.yaml" line 8: spec.selector differs with the annotations, and can not be changed once it is there: use what stays the same, such as .ProvisionID`,
	}, lines(faults))
}

func TestLongStatefulSetName(t *testing.T) {
	t.Parallel()
	_, faults := readTest(t, map[string]string{"statefulset": "testdata/cases/long-name/statefulset.yaml"})
	require.Equal(t, []string{`template_paths.statefulset: "testdata/cases/long-name/statefulset.yaml" line 4: name "runtime-<id>-keeper-0123456" has 55 characters: the pods of a StatefulSet are refused if it has more than 52`}, lines(faults))
}

// Replicas in a template and an autoscaler would undo each other's work: said, and let through.
func TestAutoscaler(t *testing.T) {
	t.Parallel()
	paths := templates(t, "testdata/base")
	require.Empty(t, mustRead(t, paths).Warnings())
	paths["autoscaler"] = "testdata/cases/autoscaler/hpa.yaml"
	require.Equal(t, []string{`template_paths.deployment: "testdata/base/deployment.yaml" line 6: replicas is set here, and by the autoscaler of template_paths.autoscaler: each would undo what the other does: leave replicas out`},
		lines(mustRead(t, paths).Warnings()))
}

// Disks whose size follows the slots are no fault of a StatefulSet's, and nothing to warn of: they grow.
func TestSizeOfClaims(t *testing.T) {
	t.Parallel()
	require.Empty(t, mustRead(t, templates(t, "testdata/sets/game-server")).Warnings())
}
