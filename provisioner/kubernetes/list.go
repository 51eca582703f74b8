package kubernetes

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"berth/provisioner"
)

// List returns every object that carries the marks of this provisioner and installation. Disks that a StatefulSet made do not say of
// which installation they are; they say of which resource.
func (k *Kubernetes) List(ctx context.Context) ([]provisioner.Object, error) {
	if err := k.installed(ctx); err != nil {
		return nil, err
	}
	first := k.coreKinds()
	found, err := k.lists(ctx, first, k.mark())
	if err != nil {
		return nil, err
	}
	kinds := first
	for i := range found { // of kinds that the templates do not have any more
		if k.mine(&found[i]) && isAnchor(&found[i]) {
			kinds = union(kinds, anchored(&found[i])...)
		}
	}
	more, err := k.lists(ctx, kinds[len(first):], k.mark())
	if err != nil {
		return nil, err
	}
	var all []provisioner.Object
	for _, o := range append(found, more...) {
		if !k.mine(&o) {
			continue
		}
		id, err := uuid.Parse(o.GetLabels()[LabelResource])
		if err != nil {
			id = uuid.Nil
		}
		all = append(all, provisioner.Object{
			Ref: kindName(o.GroupVersionKind()) + "/" + o.GetName(), UID: string(o.GetUID()), ResourceID: id, CreatedAt: o.GetCreationTimestamp().Time,
		})
	}
	return all, nil
}

// Remove deletes this very object. Gone already, and replaced by another one, is success.
func (k *Kubernetes) Remove(ctx context.Context, o provisioner.Object) error {
	i := strings.LastIndexByte(o.Ref, '/')
	if i < 0 || o.UID == "" {
		return fmt.Errorf("%w: %q is not the name of an object of a cluster", provisioner.ErrInvalid, o.Ref)
	}
	kind, ok := parseKind(o.Ref[:i])
	if !ok {
		return fmt.Errorf("%w: %q is not the name of an object of a cluster", provisioner.ErrInvalid, o.Ref)
	}
	var u unstructured.Unstructured
	u.SetGroupVersionKind(kind)
	u.SetName(o.Ref[i+1:])
	u.SetUID(types.UID(o.UID))
	return k.cluster.remove(ctx, &u, false)
}
