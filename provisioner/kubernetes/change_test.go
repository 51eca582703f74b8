package kubernetes

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A field is found, named and taken out wherever it stands.
// The same amounts have one form, in whatever unit they are written.
func TestPlainAmounts(t *testing.T) {
	t.Parallel()
	for _, same := range [][]any{{"1Gi", "1073741824", int64(1073741824), "1048576Ki"}, {0.01, "10m", "0.01"}, {int64(2), "2", "2000m", "2.0"}, {"40G", "4e10"}} {
		for _, amount := range same {
			of := func(a any) any {
				return plainAmounts(map[string]any{"list": []any{map[string]any{"resources": map[string]any{"limits": map[string]any{"x": a}}}}})
			}
			require.Equal(t, of(same[0]), of(amount), "%v", amount)
			require.NotEqual(t, of("3"), of(amount))
		}
	}
}

func TestFieldPaths(t *testing.T) {
	t.Parallel()
	tree := func(image string, port, mode int) map[string]any {
		return map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{"example.test/a.b": image}},
			"spec": map[string]any{"containers": []any{
				map[string]any{"name": "other", "image": "same"},
				map[string]any{"name": "main", "image": image, "args": []any{"a", image}},
			}, "ports": []any{map[string]any{"port": port}}, "mode": mode},
		}
	}
	a, b := tree("one", 1, 1), tree("two", 2, 1)
	want := map[string]map[string]any{
		"metadata.annotations.example.test/a.b": {"metadata": map[string]any{"annotations": map[string]any{}}},
		"spec.containers[name=main].args[1]":    nil,
		"spec.containers[name=main].image":      nil,
		"spec.ports[0].port":                    nil,
	}
	changes := changesOf(a, b, nil)
	require.Len(t, changes, len(want))
	for _, c := range changes {
		require.Contains(t, want, c.path.String())
		require.True(t, c.path.isIn(b), c.path)
		rest := tree("two", 2, 1)
		without(rest, c.path)
		require.NotEqual(t, b, rest, c.path)
		other := changesOf(b, rest, nil)
		require.Len(t, other, 1, "nothing else goes: %v", other)
	}
	require.False(t, fieldPath{"spec", "containers", "[name=gone]", "image"}.isIn(b))
	require.False(t, fieldPath{"spec", "replicas"}.isIn(b))
	rest := tree("two", 2, 1)
	without(rest, fieldPath{"spec", "containers", "[name=gone]", "image"})
	without(rest, fieldPath{"nothing", "here"})
	require.Equal(t, b, rest)
}
