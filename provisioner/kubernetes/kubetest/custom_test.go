package kubetest

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/stretchr/testify/require"
)

func TestCustomResource(t *testing.T) {
	t.Parallel()
	n := New(t)
	client, err := dynamic.NewForConfig(n.Config)
	require.NoError(t, err)
	const group = "things.kubetest.test"
	definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "things." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced",
			"names": map[string]any{"plural": "things", "singular": "thing", "kind": "Thing"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
					"spec": map[string]any{"type": "object", "properties": map[string]any{"size": map[string]any{"type": "integer", "minimum": int64(1)}}},
				}}},
			}},
		},
	}}
	_, err = definitions.Create(t.Context(), definition, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = definitions.Delete(context.Background(), definition.GetName(), metav1.DeleteOptions{}) })

	things := client.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "things"}).Namespace(n.Name)
	thing := func(size int64) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": group + "/v1", "kind": "Thing", "metadata": map[string]any{"name": "one"}, "spec": map[string]any{"size": size},
		}}
	}
	until(t, "things can be made", func(ctx context.Context) (bool, error) {
		_, err := things.Apply(ctx, "one", thing(2), manager)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	_, err = things.Apply(t.Context(), "one", thing(0), manager)
	require.True(t, apierrors.IsInvalid(err), "%v", err)
	is, err := things.Get(t.Context(), "one", metav1.GetOptions{})
	require.NoError(t, err)
	size, _, err := unstructured.NestedInt64(is.Object, "spec", "size")
	require.NoError(t, err)
	require.EqualValues(t, 2, size)
}
