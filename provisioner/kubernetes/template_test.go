package kubernetes

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"berth/provisioner"
)

// ofFile matches what is said of a template whose path is too long to be shown.
var ofFile = regexp.MustCompile(`(line \d+) of [a-z_]+\.yaml:`)

// Every fault of a template names the file and the line.
func TestTemplateFaults(t *testing.T) {
	t.Parallel()
	const service = "apiVersion: v1\nkind: Service\nmetadata:\n  name: {{ .Names.Service }}\n"
	for name, c := range map[string]struct {
		key, text string
		want      []string
	}{
		"syntax":           {"service", service + "spec:\n  {{ if }}\n", []string{"line 6: missing value for if"}},
		"unknown function": {"service", service + "# {{ include \"x\" . }}\n", []string{`line 5: function "include" not defined`}},
		"refused functions": {"service", service + "# {{ env \"HOME\" }}\n# {{ if now }}{{ end }}{{ uuidv4 }}\n", []string{
			`line 5: function "env" reads the machine that the worker runs on: derive the value from .ProvisionID`,
			`line 6: function "now" gives another result each time`, `line 6: function "uuidv4" gives another result each time`,
		}},
		"unknown data":       {"service", service + "# {{ .Nmaes }}\n", []string{"line 5: <.Nmaes>: can't evaluate field Nmaes in type kubernetes.Data"}},
		"unknown name":       {"service", service + "# {{ .Names.Sercive }}\n", []string{`line 5: <.Names.Sercive>: map has no entry for key "Sercive"`}},
		"index of a name":    {"service", service + "# {{ index .Names \"x\" }}\n", []string{`line 5: <index .Names "x">: error calling index: "x" is not there: there are Deployment, GRPCIngress`}},
		"index of a map":     {"service", service + "# {{ index (dict \"a\" 1) \"b\" }}\n", []string{`line 5: <index (dict "a" 1) "b">: error calling index: "b" is not there: there are a`}},
		"no value":           {"service", service + "# {{ get (dict \"a\" nil) \"a\" }}\n", []string{`comes to no value`}},
		"annotation missing": {"service", service + "# {{ .Annotations.plan }}\n", []string{`map has no entry for key "plan": an annotation may be missing: write index .Annotations "KEY"`}},
		"fail":               {"service", service + "# {{ fail \"no way\" }}\n", []string{"line 5: <fail \"no way\">: error calling fail: no way"}},
		"endless":            {"service", "{{ define \"x\" }}# x\n{{ template \"x\" . }}{{ end }}{{ template \"x\" . }}", []string{"exceeded maximum template depth"}},
		"long":               {"service", "{{ range until 100000 }}# twenty characters\n{{ end }}", []string{"line 1: renders to more than 1048576 bytes"}},

		"YAML":             {"service", service + "spec:\n  type: [\n", []string{"did not find expected node content"}},
		"duplicate key":    {"service", service + "spec:\n  type: ClusterIP\n  type: NodePort\n", []string{`line 7: key "type" is written twice`}},
		"a list":           {"service", "- a\n", []string{"line 1: renders to a list and not to an object"}},
		"unknown field":    {"service", service + "spec:\n  typ: ClusterIP\n  ports:\n    - {prot: 1}\n", []string{`line 6: unknown field "spec.typ"`, `line 8: unknown field "spec.ports[0].prot"`}},
		"another case":     {"service", service + "spec:\n  Type: ClusterIP\n", []string{`line 6: unknown field "spec.Type"`}},
		"wrong type":       {"service", service + "spec:\n  ports:\n    - name: a\n      port: many\n", []string{`line 8: spec.ports[0].port is text, where a number is wanted`}},
		"wrong quantity":   {"pvc", "apiVersion: v1\nkind: PersistentVolumeClaim\nspec:\n  resources:\n    requests:\n      storage: 4 GB\n", []string{`line 6: spec.resources.requests.storage: quantities must match`}},
		"number in label":  {"service", service + "  labels:\n    tier: 1\n", []string{`line 6: metadata.labels.tier is a number, where text is wanted: quote it`}},
		"key that is none": {"other", "apiVersion: v1\nkind: ConfigMap\ndata: {on: x}\n", []string{"has a key that YAML reads as true and not as text: quote it"}},
		"no apiVersion":    {"service", "kind: Service\n", []string{"line 1: has no apiVersion"}},
		"no kind":          {"service", "apiVersion: v1\n", []string{"line 1: has no kind"}},
		"wrong kind":       {"deployment", "apiVersion: v1\nkind: Service\n", []string{"line 2: kind is Service, where deployment wants Deployment: give it a key of its own"}},
		"mistyped kind":    {"other", "apiVersion: v1\nkind: Servise\n", []string{`line 1: v1 has no kind "Servise"`}},
		"mistyped group":   {"other", "apiVersion: v2\nkind: Service\n", []string{`line 1: there is no apiVersion "v2"`}},
		"in no namespace":  {"other", "apiVersion: v1\nkind: Namespace\n", []string{"line 2: a Namespace is in no namespace"}},
		"many":             {"other", "apiVersion: v1\nkind: List\nitems: []\n", []string{"line 2: is a List"}},
		"other namespace":  {"service", service + "  namespace: other\n", []string{"line 5: namespace is other, where the spec says tenants: leave it out"}},
		"shared name":      {"service", "apiVersion: v1\nkind: Service\nmetadata:\n  name: runtime\n", []string{`line 4: name "runtime" holds no provision id`}},
		"long name":        {"service", "apiVersion: v1\nkind: Service\nmetadata:\n  name: {{ .Names.Service }}-and-thirty-characters-more\n", []string{"must be no more than 63"}},
		"first a digit":    {"service", "apiVersion: v1\nkind: Service\nmetadata:\n  name: {{ .ProvisionID }}\n", []string{`line 4: name "<id>": a DNS-1035 label must`}},
		"name of others":   {"service", service + "  generateName: x\n  ownerReferences: [{}]\n", []string{"line 5: metadata.generateName is not for a template to set", "line 6: metadata.ownerReferences is not for a template to set"}},
		"our label":        {"service", service + "  labels:\n    app.kubernetes.io/managed-by: helm\n", []string{"line 6: label app.kubernetes.io/managed-by is Berth's own: leave it out"}},
		"long host":        {"http_ingress", "apiVersion: networking.k8s.io/v1\nkind: Ingress\nspec:\n  rules:\n    - host: this-is-long-this-is-longer-{{ .Host }}\n", []string{`line 5: host "this-is-long-this-is-longer-node-<id>.localhost" has a part of 65 characters`}},
		"no pods":          {"deployment", strings.Replace(sampleDeployment, "metadata: {labels: {runtime:", "metadata: {labels: {run:", 1), []string{"line 6: selector wants label runtime, which the pods do not have"}},
		"status":           {"service", service + "status: {loadBalancer: {ingress: [{ip: 10.0.0.1}]}}\n", []string{"line 5: status is not for a template to set"}},
		"inexact":          {"other", "apiVersion: x.example/v1\nkind: X\nspec: {a: 1e300, b: 1}\n", []string{"is not exact: write the number in digits"}},
		"too large":        {"other", "apiVersion: x.example/v1\nkind: X\nspec: {a: 18446744073709551615}\n", []string{"is more than a whole number can be"}},

		"selector":         {"deployment", strings.ReplaceAll(sampleDeployment, "{runtime: {{ .ProvisionID | quote }}}", "{runtime: {{ .Slots | quote }}}"), []string{"line 6: spec.selector differs with the number of slots, and can not be changed"}},
		"name":             {"other", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x-{{ .ProvisionID }}-{{ .Environment }}\n", []string{"line 4: metadata.name differs with the environment"}},
		"immutable Secret": {"other", "apiVersion: v1\nkind: Secret\nimmutable: true\nstringData:\n  v: {{ .Version | quote }}\n", []string{"line 4: stringData differs with the version"}},
		"claim":            {"other", statefulSet("storageClassName: class-{{ .Slots }}"), []string{"spec.volumeClaimTemplates differs with the number of slots"}},
		"disk":             {"pvc", "apiVersion: v1\nkind: PersistentVolumeClaim\nspec:\n  storageClassName: {{ index .Annotations \"class\" | quote }}\n", []string{"line 4: spec.storageClassName differs with the annotations"}},
		"cluster IP":       {"service", service + "spec:\n  clusterIP: {{ if eq .Environment \"prod\" }}None{{ end }}\n", []string{"line 6: spec.clusterIP differs with the environment"}},
		"role":             {"other", "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: \"r-{{ .Version }}\"}\n", []string{"line 3: roleRef differs with the version"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, faults := readTest(t, written(t, map[string]string{c.key: c.text}))
			all := strings.Join(lines(faults), "\n")
			for _, want := range c.want {
				require.Contains(t, ofFile.ReplaceAllString(all, "$1:"), want)
			}
			for _, f := range faults {
				require.Equal(t, "template_paths."+c.key, f.Path)
				require.Contains(t, f.Error(), c.key+".yaml", "names the file")
			}
			require.NotContains(t, all, "zqx", "a token is shown")
		})
	}
}

func statefulSet(claim string) string {
	return `apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ .Names.Deployment }}
spec:
  serviceName: {{ .Names.Service }}
  selector: {matchLabels: {runtime: {{ .ProvisionID | quote }}}}
  template:
    metadata: {labels: {runtime: {{ .ProvisionID | quote }}}}
    spec: {containers: [{name: c, image: "{{ .Image }}:{{ .ImageTag }}"}]}
  volumeClaimTemplates:
    - metadata: {name: data}
      spec: {` + claim + `}
`
}

// Two templates of one object are one too many.
func TestSameObjectTwice(t *testing.T) {
	t.Parallel()
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Names.Deployment }}\"}\n"
	_, faults := readTest(t, written(t, map[string]string{"one": text, "two": text}))
	require.Len(t, faults, 1)
	require.Contains(t, faults[0].Error(), "is the same ConfigMap as template_paths.one: runtime-")
}

// What is a number in a field of text is text, and what is text in a field of numbers a number, if it is one.
func TestNumbersAndText(t *testing.T) {
	t.Parallel()
	s := mustRead(t, written(t, map[string]string{"deployment": strings.Replace(strings.Replace(sampleDeployment,
		"spec:\n", "spec:\n  replicas: {{ index .Annotations \"replicas\" }}\n", 1),
		"metadata:\n", "metadata:\n  annotations:\n    id: {{ .ProvisionID }}\n    short: {{ .ProvisionID | trunc 4 }}\n    replicas: {{ index .Annotations \"replicas\" }}\n", 1)}))
	r := testResource
	r.ID[0], r.ID[1] = 0x12, 0x34 // 1234 and so on, which YAML would take for a number
	objects, err := s.Render(r, provisioner.RuntimeArgs{Slots: 1, Annotations: map[string]string{"replicas": "3"}}, "i")
	require.NoError(t, err)
	require.Equal(t, int64(3), at(objects[0].Object, "spec")["replicas"])
	require.Equal(t, map[string]string{"id": r.ProvisionID(), "short": "1234", "replicas": "3"}, objects[0].GetAnnotations())

	_, err = s.Render(r, provisioner.RuntimeArgs{Slots: 1, Annotations: map[string]string{"replicas": "many"}}, "i")
	require.ErrorIs(t, err, provisioner.ErrInvalid)
	require.Regexp(t, `annotation "replicas": .*line \d+: spec.replicas is text, where a number is wanted`, err.Error())
}

// What the API server would drop is dropped, so that a second apply is no write; what means something stays.
func TestEmptyIsDropped(t *testing.T) {
	t.Parallel()
	s := mustRead(t, written(t, map[string]string{"policy": `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {annotations: {}, creationTimestamp: null}
spec:
  podSelector: {}
  policyTypes: [Egress]
  ingress: [{}, {from: [], ports: []}]
  egress: []
`, "deployment": strings.Replace(sampleDeployment, "spec:\n      containers:", "spec:\n      nodeSelector: {}\n      volumes: [{name: tmp, emptyDir: {}}]\n      tolerations: []\n      containers:", 1)}))
	objects := mustRender(t, s, provisioner.RuntimeArgs{Slots: 1})
	require.Equal(t, map[string]any{"podSelector": map[string]any{}, "policyTypes": []any{"Egress"}, "ingress": []any{map[string]any{}, map[string]any{}}}, objects[0].Object["spec"])
	require.NotContains(t, objects[0].Object["metadata"], "annotations")
	pod := at(objects[1].Object, "spec.template.spec")
	require.Equal(t, []any{map[string]any{"name": "tmp", "emptyDir": map[string]any{}}}, pod["volumes"])
	require.NotContains(t, pod, "nodeSelector")
	require.NotContains(t, pod, "tolerations")
}

// Of a kind that nobody knows only what every object has is checked, and nothing is dropped.
func TestCustomResource(t *testing.T) {
	t.Parallel()
	s := mustRead(t, written(t, map[string]string{"database": "apiVersion: db.example.com/v1\nkind: Database\nspec: {sizes: [], count: {{ .StorageBytes }}, f: 0.5}\n"}))
	require.Len(t, s.Warnings(), 1)
	require.Contains(t, s.Warnings()[0].Error(), "line 2: Database of db.example.com/v1 is not known here")
	o := mustRender(t, s, provisioner.RuntimeArgs{Slots: 1})[0]
	require.False(t, o.Known)
	require.Equal(t, map[string]any{"sizes": []any{}, "count": int64(40_000_000_000), "f": 0.5}, o.Object["spec"])
	require.Equal(t, "berth", o.GetLabels()[LabelManagedBy])
}

// Pods bear what it takes to find them and nothing that another version of Berth, or a new installation, would change.
func TestLabelsOfPods(t *testing.T) {
	t.Parallel()
	o := mustRender(t, mustRead(t, written(t, map[string]string{"other": statefulSet("accessModes: [ReadWriteOnce]")})), provisioner.RuntimeArgs{Slots: 1})[0]
	want := map[string]any{"app.kubernetes.io/managed-by": "berth", "berth.dev/provisioner": "k8s-a", "berth.dev/resource-id": testID}
	claim := at(o.Object, "spec")["volumeClaimTemplates"].([]any)[0].(map[string]any)
	require.Equal(t, want, at(claim, "metadata.labels"))
	want["runtime"] = testResource.ProvisionID()
	require.Equal(t, want, at(o.Object, "spec.template.metadata.labels"))
}

// What is asked for and can not be is refused before anything is rendered.
func TestArguments(t *testing.T) {
	t.Parallel()
	s := mustRead(t, templates(t, "testdata/base"))
	for want, args := range map[string]provisioner.RuntimeArgs{
		"slots 0":                              {},
		"slots -1":                             {Slots: -1},
		"slots 230584301":                      {Slots: 230584301},
		"environment: it holds a NUL":          {Slots: 1, Environment: "a\x00"},
		`annotation "a": it is not UTF-8`:      {Slots: 1, Annotations: map[string]string{"a": "\xff"}},
		"key of an annotation: it holds a NUL": {Slots: 1, Annotations: map[string]string{"\x00": ""}},
		`annotation "a": it has 70000 bytes`:   {Slots: 1, Annotations: map[string]string{"a": strings.Repeat("x", 70_000)}},
		"annotations: they have 160010 bytes":  {Slots: 1, Annotations: many(10, 16_000)},
	} {
		_, err := s.Render(testResource, args, "i")
		require.ErrorIs(t, err, provisioner.ErrInvalid)
		require.Contains(t, err.Error(), want)
	}
}

func many(n, size int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[string(rune('a'+i))] = strings.Repeat("x", size)
	}
	return m
}
