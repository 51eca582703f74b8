package kubernetes

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/provisioner"
)

// shape is the structure of an object: kinds, paths of keys, types, and everything that is not of the tenant.
func shape(v any, value string) any {
	switch v := v.(type) {
	case map[string]any:
		m := map[string]any{}
		for key, inner := range v {
			m[key] = shape(inner, value)
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i, inner := range v {
			l[i] = shape(inner, value)
		}
		return l
	case string:
		if value == "" {
			return "text"
		}
		return strings.ReplaceAll(v, value, "VALUE")
	}
	return v
}

func textShape(v any) any { return shape(v, "") }

// checkHostile renders a template with a value that somebody made up, and holds it against one with a plain value.
func checkHostile(t *testing.T, s *Spec, value string) {
	t.Helper()
	args := provisioner.RuntimeArgs{Slots: 2, Version: "1.2.3", Environment: "prod", Annotations: map[string]string{"organization_name": "plain"}}
	plain := mustRender(t, s, args)
	args.Annotations["organization_name"] = value
	objects, err := s.Render(testResource, args, "installation")
	if strings.ContainsRune(value, 0) || len(value) > maxValue || !utf8.ValidString(value) {
		require.ErrorIs(t, err, provisioner.ErrInvalid)
		require.Contains(t, err.Error(), `annotation "organization_name"`)
		require.Less(t, len(err.Error()), 1000)
		return
	}
	require.NoError(t, err)
	require.Len(t, objects, len(plain))
	for i := range objects {
		require.Equal(t, textShape(plain[i].Object), textShape(objects[i].Object), "structure")
		for path, want := range map[string]string{"bare": value, "double": value, "single": value, "block": value, "folded": value} {
			require.Equal(t, want, objects[i].GetAnnotations()[path], path)
		}
		require.Equal(t, value, at(objects[i].Object, "spec.template.metadata.annotations")["flow"])
		container := at(objects[i].Object, "spec.template.spec")["containers"].([]any)[0].(map[string]any)
		require.Equal(t, []any{"start", "--owner=" + value}, container["args"])
	}
}

// No text of a tenant changes the structure of an object, and each comes back as it was or is refused by name.
func TestHostileValues(t *testing.T) {
	t.Parallel()
	s := mustRead(t, map[string]string{"deployment": "testdata/cases/hostile/deployment.yaml"})
	for _, value := range readJSON[[]string](t, "testdata/cases/hostile/values.json") {
		checkHostile(t, s, value)
	}
}

func FuzzHostileValues(f *testing.F) {
	raw, err := os.ReadFile("testdata/cases/hostile/deployment.yaml")
	require.NoError(f, err)
	parsed, flaws := parseFile("deployment", "deployment.yaml", raw)
	require.Empty(f, flaws)
	s := &Spec{name: "k8s-a", host: sampleHost, namespace: "tenants", image: image{name: "r"}, slot: provisioner.DefaultSlot, files: []*file{parsed}}
	for _, v := range []string{
		"plain", "", "\"'`", "a\nb: c\n---\nkind: Pod", "{{ .InstanceID }}", "}}{{", "*a", "&a b", "!!binary aGk=", "!<x> y", "nul\x00", "zqx0000000xqz",
		"zqx0000001xqz zqx9999999xqz", "\xff", "\u2028---\u2028", "%YAML 1.1", "<<: *x", "? a\n: b", "- x", "\r\n...\r\n", "0x10", "1e3", "null", "\t", strings.Repeat("a", 70_000),
	} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, value string) { checkHostile(t, s, value) })
}

// Values in every other style of template: ranged over, as keys, as JSON, in blocks that are indented.
func TestHostileElsewhere(t *testing.T) {
	t.Parallel()
	s := mustRead(t, written(t, map[string]string{"settings": `apiVersion: v1
kind: ConfigMap
metadata:
  annotations:
{{- range $key, $value := .Annotations }}
    {{ $key }}: {{ $value }}
{{- end }}
data:
  json: {{ .Annotations | toJson | quote }}
  pretty: |
{{ .Annotations | toPrettyJson | indent 4 }}
  block: |-
    first
    {{- index .Annotations "organization_name" | nindent 4 }}
  quoted: {{ index .Annotations "organization_name" | squote }}
  go: {{ index .Annotations "organization_name" | printf "%q" }}
  {{- if hasKey .Annotations "organization_name" }}
  environment: "{{ .Environment }}-{{ upper .Environment }}"
  {{- end }}
`}))
	values := append(readJSON[[]string](t, "testdata/cases/hostile/values.json"), "zqx0000000xqz", "zqx0000003xqz")
	args := provisioner.RuntimeArgs{Slots: 1, Environment: "prod", Annotations: map[string]string{"organization_name": "plain"}}
	plain := mustRender(t, s, args)[0]
	for _, value := range values {
		if strings.ContainsRune(value, 0) || len(value) > maxValue {
			continue
		}
		args.Environment, args.Annotations = value, map[string]string{"organization_name": value}
		o := mustRender(t, s, args)[0]
		require.Equal(t, textShape(plain.Object), textShape(o.Object))
		require.Equal(t, value, o.GetAnnotations()["organization_name"])
		data := at(o.Object, "data")
		require.Equal(t, value, data["quoted"])
		require.Equal(t, value, data["go"])
		require.Equal(t, value+"-"+strings.ToUpper(value), data["environment"])
		for _, key := range []string{"json", "pretty"} {
			require.Contains(t, data[key], `"organization_name":`)
		}
	}
	args.Environment, args.Annotations = "prod", map[string]string{"organization_name": "a\nb", "x": "1"}
	data := at(mustRender(t, s, args)[0].Object, "data")
	require.Equal(t, "{\n  \"organization_name\": \"a\\nb\",\n  \"x\": \"1\"\n}\n", data["pretty"])
	require.Equal(t, "first\na\nb", data["block"])
}

// A value can not choose a field, and JSON of a tenant no fields.
func TestHostileStructure(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"key":       {"apiVersion: v1\nkind: Service\nspec:\n  {{ .Environment }}: x\n", `line 4: {{ .Environment }} stands in a key: that would let it choose the field. Below annotations, labels, data, stringData it may`},
		"from json": {"apiVersion: v1\nkind: Service\nspec: {{ index .Annotations \"spec\" | default \"{}\" | fromJson | toJson }}\n", `line 3: {{ index .Annotations "spec" | default "{}" | fromJson | toJson }} would let whoever wrote the JSON choose the fields: take what is needed out of it, one by one`},
		"text":      {"apiVersion: v1\nkind: Service\nspec: {{ printf \"{type: %s}\" (index .Annotations \"type\") }}\n", `line 3: spec: what is printed here is text, and would be read as YAML: print one text`},
	} {
		_, faults := readTest(t, written(t, map[string]string{"service": c.text}))
		require.True(t, slices.ContainsFunc(lines(faults), func(l string) bool { return strings.Contains(l, c.want) }), "%s: %s", name, faults)
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	s := mustRead(t, map[string]string{"deployment": "testdata/base/deployment.yaml"})
	images := map[string]string{
		"latest": "latest", "1.2.3": "1.2.3", "v1.2.3": "v1.2.3", "0123456789abcdef0123456789abcdef01234567": "0123456789abcdef0123456789abcdef01234567",
		"1.2.3-rc.1": "1.2.3-rc.1", "1.2.3+b": "1.2.3_b", "": "latest",
	}
	seen := map[string]bool{}
	for _, version := range readJSON[[]string](t, "testdata/cases/hostile/versions.json") {
		seen[version] = true
		objects, err := s.Render(testResource, provisioner.RuntimeArgs{Slots: 1, Version: version}, "i")
		if tag, ok := images[version]; ok {
			require.NoError(t, err, "%q", version)
			container := at(objects[0].Object, "spec.template.spec")["containers"].([]any)[0].(map[string]any)
			require.Equal(t, "registry.example.test/tenants/runtime:"+tag, container["image"])
			continue
		}
		require.ErrorIs(t, err, provisioner.ErrInvalid, "%q", version)
	}
	require.Subset(t, slices.Collect(maps.Keys(seen)), slices.Collect(maps.Keys(images)))
}

// Made-up values of all that means something in YAML, JSON or a template.
func TestHostileMixtures(t *testing.T) {
	t.Parallel()
	s := mustRead(t, map[string]string{"deployment": "testdata/cases/hostile/deployment.yaml"})
	pieces := []string{"a", " ", "\n", "\r\n", "\t", "---", "...", "\"", "'", "`", "\\", "{{", "}}", "{", "}", "[", "]", ",", ": ", "- ", "? ", "#", " #", "&a", "*a", "!!int ", "!x ", "|", ">", "%", "@", "<<",
		"null", "~", "1e3", "0x1", "on", "\u0085", "\u2028", "\ufeff", "\u202e", "\x07", "\x1b", "é", "🚀", "zqx0000000xqz", "zqx", "xqz", "$(HOST)", "apiVersion: v1", "\x00", "\xff"}
	rapid.Check(t, func(r *rapid.T) {
		value := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 12).Draw(r, "pieces"), "")
		checkHostile(t, s, value)
	})
}
