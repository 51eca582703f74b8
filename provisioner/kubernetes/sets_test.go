package kubernetes

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"berth/provisioner"
)

// Sets of templates as operators write them are without fault, render with full and with minimal data, and come to what any other
// program would read in them.
func TestSets(t *testing.T) {
	t.Parallel()
	folders, err := filepath.Glob("testdata/sets/*")
	require.NoError(t, err)
	for _, folder := range append(folders, "testdata/base", "../../examples/kubernetes/runtime", "../../examples/kubernetes/stateful") {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			t.Parallel()
			paths := templates(t, folder)
			s := mustRead(t, paths)
			for _, data := range []string{"full.json", "minimal.json"} {
				args := testArgs(t, data)
				objects := mustRender(t, s, args)
				require.Len(t, objects, len(paths))
				require.Equal(t, objects, mustRender(t, s, args), "rendered twice")
				for _, o := range objects {
					require.True(t, o.Known)
					require.Equal(t, "tenants", o.GetNamespace())
					require.Equal(t, map[string]string{
						LabelManagedBy: "berth", LabelInstance: testResource.ProvisionID(), LabelProvisioner: "k8s-a",
						LabelResource: testID, LabelInstallation: "installation",
					}, chosen(o.GetLabels(), LabelManagedBy, LabelInstance, LabelProvisioner, LabelResource, LabelInstallation))
					if diff := cmp.Diff(plainly(t, s, o, args), withoutMarks(t, o)); diff != "" {
						t.Errorf("%s: a plain engine renders another thing (-plain +ours):\n%s", o.File, diff)
					}
				}
			}
		})
	}
}

func chosen(m map[string]string, keys ...string) map[string]string {
	some := map[string]string{}
	for _, k := range keys {
		some[k] = m[k]
	}
	return some
}

// plainly is an object as a template engine and another YAML parser come to it, decoded as its kind.
func plainly(t *testing.T, s *Spec, o Object, args provisioner.RuntimeArgs) any {
	t.Helper()
	r, failed := s.file(o.Key).execute(s.data(testResource.ProvisionID(), args), true)
	require.Nil(t, failed)
	var tree map[string]any
	raw, err := yaml.YAMLToJSONStrict(r.out.Bytes())
	require.NoError(t, err)
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	require.NoError(t, d.Decode(&tree))
	return typed(t, tree, o)
}

// withoutMarks is an object without what we add to each, decoded as its kind.
func withoutMarks(t *testing.T, o Object) any {
	t.Helper()
	tree := o.DeepCopy().Object
	unmark := func(m map[string]any) {
		for _, key := range []string{LabelManagedBy, LabelInstance, LabelProvisioner, LabelResource, LabelInstallation} {
			delete(at(m, "metadata.labels"), key)
		}
	}
	unmark(tree)
	for _, path := range podTemplates[o.GetKind()] {
		unmark(at(tree, path))
	}
	claims, _ := at(tree, "spec")["volumeClaimTemplates"].([]any)
	for _, c := range claims {
		labels := at(c.(map[string]any), "metadata.labels")
		delete(labels, LabelManagedBy)
		delete(labels, LabelProvisioner)
		delete(labels, LabelResource)
	}
	delete(tree["metadata"].(map[string]any), "namespace")
	return typed(t, tree, o)
}

func typed(t *testing.T, tree map[string]any, o Object) any {
	t.Helper()
	object, wrong, _ := strictly(tree, o.GroupVersionKind())
	require.Empty(t, wrong, o.File)
	raw, err := json.Marshal(object)
	require.NoError(t, err)
	var back map[string]any
	require.NoError(t, json.Unmarshal(raw, &back))
	if labels := at(back, "metadata.labels"); labels != nil && len(labels) == 0 {
		delete(back["metadata"].(map[string]any), "labels")
	}
	dropEmpty(back)
	return back
}

// dropEmpty drops empty maps and lists, which the two sides of a comparison keep differently.
func dropEmpty(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			dropEmpty(inner)
			if isEmpty(inner) {
				delete(v, k)
			}
		}
	case []any:
		for _, inner := range v {
			dropEmpty(inner)
		}
	}
}

// Line ends of Windows, a byte order mark, another order of keys and comments make no difference to what is applied.
func TestSameObjects(t *testing.T) {
	t.Parallel()
	args := testArgs(t, "full.json")
	want := mustRender(t, mustRead(t, map[string]string{"deployment": "testdata/base/deployment.yaml"}), args)[0]
	for _, path := range templates(t, "testdata/cases/same-objects") {
		got := mustRender(t, mustRead(t, map[string]string{"deployment": path}), args)[0]
		require.Empty(t, cmp.Diff(typed(t, want.Object, want), typed(t, got.Object, got)), path)
		one, other := newWish(want.Unstructured), newWish(got.Unstructured)
		require.Equal(t, one.mark(""), other.mark(""), path)
	}
	set := templates(t, "testdata/sets/tenant-database")
	unix := map[string]string{}
	for key, path := range set {
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Contains(t, string(raw), "\r\n", "the file lost what it shows")
		unix[key] = strings.TrimPrefix(strings.ReplaceAll(string(raw), "\r\n", "\n"), "\ufeff")
	}
	theirs, ours := mustRender(t, mustRead(t, set), args), mustRender(t, mustRead(t, written(t, unix)), args)
	for i := range theirs {
		require.Empty(t, cmp.Diff(theirs[i].Object, ours[i].Object))
	}
}

// What others use is applied before them, and what leads traffic to them last.
func TestOrder(t *testing.T) {
	t.Parallel()
	kinds := func(folder string) (all []string) {
		for _, o := range mustRender(t, mustRead(t, templates(t, folder)), testArgs(t, "full.json")) {
			all = append(all, o.GetKind())
		}
		return all
	}
	require.Equal(t, []string{"ServiceAccount", "Secret", "NetworkPolicy", "PersistentVolumeClaim", "Service", "Deployment", "Ingress"}, kinds("testdata/sets/sandbox"))
	require.Equal(t, []string{"Role", "ServiceAccount", "RoleBinding", "ConfigMap", "Service", "StatefulSet"}, kinds("testdata/sets/game-server"))
	require.Equal(t, []string{"PersistentVolumeClaim", "Service", "Deployment", "Ingress", "Ingress"}, kinds("testdata/base"))
}
