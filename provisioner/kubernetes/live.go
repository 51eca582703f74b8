package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth/provisioner"
)

// live is what there is of a resource, read now.
type live struct {
	anchor  *unstructured.Unstructured
	objects map[string]*unstructured.Unstructured // ours but the anchor, by their keys
	kinds   []schema.GroupVersionKind             // that were looked at
}

// sorted are the objects in the order in which they are applied.
func (l *live) sorted() []*unstructured.Unstructured {
	all := make([]*unstructured.Unstructured, 0, len(l.objects))
	for _, o := range l.objects {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(orderOf(a.GetKind()), orderOf(b.GetKind())), cmp.Compare(objectKey(a), objectKey(b)))
	})
	return all
}

// volumes are the disks, those that a StatefulSet made too.
func (l *live) volumes() []*unstructured.Unstructured {
	return slices.DeleteFunc(l.sorted(), func(o *unstructured.Unstructured) bool { return !isVolume(o) })
}

// compute is what is not a disk.
func (l *live) compute() []*unstructured.Unstructured { return slices.DeleteFunc(l.sorted(), isVolume) }

// selector selects what is of a resource.
func (k *Kubernetes) selector(r provisioner.Resource) string {
	return k.mark() + "," + LabelResource + "=" + r.ID.String()
}

// mark selects what is of this provisioner.
func (k *Kubernetes) mark() string {
	return LabelManagedBy + "=" + Manager + "," + LabelProvisioner + "=" + k.spec.name
}

// mine reports whether an object was made by us, or is a disk that a StatefulSet of ours made. What controllers make of our objects has
// some of our labels too.
func (k *Kubernetes) mine(o *unstructured.Unstructured) bool {
	labels := o.GetLabels()
	if labels[LabelManagedBy] != Manager || labels[LabelProvisioner] != k.spec.name {
		return false
	}
	installation, told := labels[LabelInstallation]
	if !told {
		return isVolume(o)
	}
	return installation == k.installation() && metav1.GetControllerOf(o) == nil
}

func isAnchor(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind().GroupKind() == kindConfigMap.GroupKind() && strings.HasPrefix(o.GetName(), anchorPrefix)
}

// look reads everything of a resource, of the kinds of the templates, those that its anchor names, and those that it named.
func (k *Kubernetes) look(ctx context.Context, r provisioner.Resource) (*live, error) {
	l := &live{objects: map[string]*unstructured.Unstructured{}, kinds: k.coreKinds()}
	for _, name := range readNotes(&r).Kinds {
		if kind, ok := parseKind(name); ok {
			l.kinds = union(l.kinds, kind)
		}
	}
	kinds := l.kinds
	for len(kinds) > 0 {
		found, err := k.lists(ctx, kinds, k.selector(r))
		if err != nil {
			return nil, err
		}
		for i := range found {
			o := &found[i]
			switch {
			case !k.mine(o):
			case isAnchor(o):
				l.anchor = o
			default:
				l.objects[objectKey(o)] = o
			}
		}
		before := len(l.kinds)
		l.kinds = union(l.kinds, anchored(l.anchor)...)
		kinds = l.kinds[before:]
	}
	return l, nil
}

// lists lists several kinds side by side. A kind that the cluster does not have in any version has no objects.
func (k *Kubernetes) lists(ctx context.Context, kinds []schema.GroupVersionKind, selector string) ([]unstructured.Unstructured, error) {
	found := make([][]unstructured.Unstructured, len(kinds))
	err := sideBySide(len(kinds), func(i int) (err error) {
		found[i], err = k.cluster.list(ctx, kinds[i], selector)
		if errors.Is(err, errNotServed) {
			other, err := k.cluster.another(ctx, kinds[i])
			if errors.Is(err, errNotServed) {
				return nil
			}
			if err != nil {
				return err
			}
			found[i], err = k.cluster.list(ctx, other, selector)
			return err
		}
		return err
	})
	return slices.Concat(found...), err
}

// sideBySide calls f for each number below n, side by side, and returns the first error in their order.
func sideBySide(n int, f func(int) error) error {
	var work sync.WaitGroup
	errs, panics := make([]error, n), make([]any, n)
	one := func(i int) {
		defer func() { panics[i] = recover() }()
		errs[i] = f(i)
	}
	for i := 1; i < n; i++ {
		work.Go(func() { one(i) })
	}
	if n > 0 {
		one(0)
	}
	work.Wait()
	for _, p := range panics {
		if p != nil {
			panic(p)
		}
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// children are what controllers make of our workloads. Parents are read before them, and these in order, so that what is not there has
// nobody left who would make it.
func (k *Kubernetes) children(ctx context.Context, r provisioner.Resource, kinds []schema.GroupVersionKind) (*unstructured.Unstructured, error) {
	has := func(kind string) bool {
		return slices.ContainsFunc(kinds, func(k schema.GroupVersionKind) bool { return k.Kind == kind })
	}
	var between []schema.GroupVersionKind
	if has("Deployment") {
		between = append(between, kindReplicas)
	}
	if has("CronJob") {
		between = append(between, kindJob)
	}
	for _, level := range [][]schema.GroupVersionKind{between, {kindPod}} {
		found, err := k.lists(ctx, level, k.selector(r))
		if err != nil {
			return nil, err
		}
		if len(found) > 0 {
			return &found[0], nil
		}
	}
	return nil, nil //nolint:nilnil // there is none
}

// isLeaving: it is deleted, and only waits for its finalizers.
func isLeaving(o *unstructured.Unstructured) bool { return o.GetDeletionTimestamp() != nil }

// heldBy says why an object is still there.
func heldBy(o *unstructured.Unstructured) string {
	if !isLeaving(o) {
		return "waits until " + titleOf(o) + " is gone"
	}
	text := fmt.Sprintf("waits until %s is gone, which was deleted at %s", titleOf(o), o.GetDeletionTimestamp().UTC().Format(time.RFC3339))
	if f := o.GetFinalizers(); len(f) > 0 {
		text += ", held by " + strings.Join(f, ", ")
	}
	return text
}
