package kubernetes

import (
	"context"
	"maps"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth/provisioner"
)

// define has the cluster serve a kind Thing of a group, with a status.
func (w *world) define(t *testing.T, group string) {
	t.Helper()
	definitions := w.dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	_, err := definitions.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "things." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced",
			"names": map[string]any{"plural": "things", "singular": "thing", "kind": "Thing"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = definitions.Delete(context.Background(), "things."+group, metav1.DeleteOptions{}) })
}

// A kind that Berth does not know is served by the cluster later than a resource needs it: then it is made, ready when its controller says
// so, watched, and gone when its finalizer is.
func TestLifeOfACustomResource(t *testing.T) {
	t.Parallel()
	const group = "custom.berth.test"
	texts := maps.Clone(unmounted(t))
	texts["thing"] = "apiVersion: " + group + "/v1\nkind: Thing\nspec: {size: {{ .Slots }}}\n"
	w := newWorld(t, written(t, texts))
	k := w.open(t, "k8s-a")
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	name := "thing-" + r.ProvisionID()
	_, err := k.Reconcile(t.Context(), r)
	require.ErrorIs(t, err, errNotServed)

	w.define(t, group)
	things := w.dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "things"}).Namespace(w.Name)
	until(t, "it is made", func() (bool, string) {
		_, err := k.Reconcile(t.Context(), r)
		_, gone := things.Get(t.Context(), name, metav1.GetOptions{})
		require.True(t, gone == nil || apierrors.IsNotFound(gone), "%v", gone)
		return err == nil && gone == nil, ""
	})
	l := listen(t, k)
	controller := func(body string) {
		is, err := things.Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		require.NotNil(t, is)
		_, err = things.Patch(t.Context(), name, "application/merge-patch+json", []byte(body), metav1.PatchOptions{FieldManager: "controller"}, "status")
		require.NoError(t, err)
	}
	controller(`{"status":{"conditions":[{"type":"Ready","status":"False","message":"it is being set up"}]}}`)
	until(t, "it says what it waits for", func() (bool, string) {
		o, err := k.Reconcile(t.Context(), r)
		require.NoError(t, err)
		return o.Message == "Thing "+name+": it is being set up", o.Message
	})
	was := l.times(r.ID)
	controller(`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
	l.news(r.ID, was)
	l.driven(k.Reconcile, r, provisioner.PhaseReady)

	was = l.times(r.ID)
	_, err = things.Patch(t.Context(), name, "application/merge-patch+json", []byte(`{"metadata":{"finalizers":["controller.test/holds"]},"spec":{"size":9}}`), metav1.PatchOptions{FieldManager: "hand"})
	require.NoError(t, err)
	l.news(r.ID, was)
	require.Equal(t, []string{"Thing " + name + ": spec.size"}, observed1(t, k, r).Drift)
	l.driven(k.Reconcile, r, provisioner.PhaseReady)
	o, err := driveToReason(t, k.Hibernate, r, reasonLeaving)
	require.NoError(t, err)
	until(t, "it waits for the finalizer", func() (bool, string) {
		o, err = k.Hibernate(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, provisioner.PhasePending, o.Phase)
		return o.Message != "" && len(w.uids("k8s-a", r.ID, "ConfigMap")) == 0, o.Message
	})
	require.Contains(t, o.Message, "held by controller.test/holds")
	_, err = things.Patch(t.Context(), name, "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	l.driven(k.Hibernate, r, provisioner.PhaseHibernated)
	l.driven(k.Deprovision, r, provisioner.PhaseAbsent)
	require.Empty(t, w.objects("k8s-a", uuid.Nil))
}
