package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"

	"berth/provisioner"
)

var jsonOnly = serializer.NewCodecFactory(scheme.Scheme).WithoutConversion()

// resource is where objects of a kind are. Those of Kubernetes itself are known; a cluster is asked about others, once, and again when
// it says that it does not have them.
func (c *cluster) resource(ctx context.Context, kind schema.GroupVersionKind) (schema.GroupVersionResource, error) {
	if scheme.Scheme.Recognizes(kind) {
		in, _ := meta.UnsafeGuessKindToResource(kind)
		return in, nil
	}
	c.mu.Lock()
	in, known := c.served[kind]
	c.mu.Unlock()
	if known {
		return in, nil
	}
	list, err := getJSON[metav1.APIResourceList](ctx, c, "ask for the kinds of "+kind.GroupVersion().String(), groupPath(kind.Group)+"/"+kind.Version)
	if err != nil {
		return in, err
	}
	for _, one := range list.APIResources {
		if one.Kind != kind.Kind || !isResource(one.Name) {
			continue
		}
		if !one.Namespaced {
			return in, says(provisioner.ErrInvalid, "a "+kind.Kind+" is in no namespace, so it can not be one resource's")
		}
		in = kind.GroupVersion().WithResource(one.Name)
		c.mu.Lock()
		c.served[kind] = in
		c.mu.Unlock()
		return in, nil
	}
	return in, says(errNotServed, "the cluster has no "+kind.Kind+" of "+kind.GroupVersion().String())
}

// isResource: not a part of one, such as its status.
func isResource(name string) bool { return !strings.Contains(name, "/") }

func groupPath(group string) string {
	if group == "" {
		return "/api"
	}
	return "/apis/" + group
}

// forget has a kind asked for again.
func (c *cluster) forget(kind schema.GroupVersionKind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.served, kind)
}

// another is a version in which a kind is served that this one of is not. An errNotServed says that there is none at all, so that there
// are no objects of it either.
func (c *cluster) another(ctx context.Context, kind schema.GroupVersionKind) (schema.GroupVersionKind, error) {
	c.forget(kind)
	if kind.Group == "" {
		return kind, says(errNotServed, "the cluster has no "+kind.Kind+" of "+kind.Version)
	}
	group, err := getJSON[metav1.APIGroup](ctx, c, "ask for the versions of "+kind.Group, groupPath(kind.Group))
	if err != nil {
		return kind, err
	}
	for _, v := range group.Versions {
		list, err := getJSON[metav1.APIResourceList](ctx, c, "ask for the kinds of "+v.GroupVersion, groupPath(kind.Group)+"/"+v.Version)
		if err != nil && !errors.Is(err, errNotServed) {
			return kind, err
		}
		for _, one := range list.APIResources {
			if one.Kind == kind.Kind && isResource(one.Name) {
				found := schema.GroupVersionKind{Group: kind.Group, Version: v.Version, Kind: kind.Kind}
				c.mu.Lock()
				c.served[found] = found.GroupVersion().WithResource(one.Name)
				c.mu.Unlock()
				return found, nil
			}
		}
	}
	return kind, says(errNotServed, "the cluster has no "+kind.Kind+" of "+kind.Group)
}

// getJSON asks for what is not an object.
func getJSON[T any](ctx context.Context, c *cluster, what, path string) (T, error) {
	var v T
	raw, err := ask(ctx, c, what, func(conn *connection) ([]byte, error) { return conn.rest.Get().AbsPath(path).Do(ctx).Raw() })
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, unavailable(what, err)
	}
	return v, nil
}

// postJSON has a question answered that is put as an object.
func postJSON[T any](ctx context.Context, c *cluster, what, path string, body T) (T, error) {
	var v T
	raw, err := json.Marshal(body)
	if err != nil {
		return v, err
	}
	answer, err := ask(ctx, c, what, func(conn *connection) ([]byte, error) {
		return conn.rest.Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body(raw).Do(ctx).Raw()
	})
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(answer, &v); err != nil {
		return v, unavailable(what, err)
	}
	return v, nil
}
