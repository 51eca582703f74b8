package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"berth/provisioner"
)

// Plan says what Reconcile would change, object by object. What it would change an object to is asked of the cluster, which tells it
// without doing it.
func (k *Kubernetes) Plan(ctx context.Context, r provisioner.Resource) ([]provisioner.Change, error) {
	args, err := readArgs(r)
	if err != nil {
		return nil, err
	}
	if err := k.installed(ctx); err != nil {
		return nil, err
	}
	objects, err := k.spec.Render(r, args, k.installation())
	if err != nil {
		return nil, err
	}
	for range looks {
		if all, err := k.plan(ctx, r, args, objects); !errors.Is(err, errMoved) {
			return all, err
		}
	}
	return nil, fmt.Errorf("its objects change while they are looked at, so that nothing can be said of them now: %w", errMoved)
}

// plan is one look, and what would follow from it.
func (k *Kubernetes) plan(ctx context.Context, r provisioner.Resource, args provisioner.RuntimeArgs, objects []Object) ([]provisioner.Change, error) {
	n := readNotes(&r)
	l, err := k.look(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("look: %w", err)
	}
	var all []provisioner.Change
	say := func(o *unstructured.Unstructured, do action, detail string) {
		all = append(all, provisioner.Change{Ref: titleOf(o), Action: string(do), Detail: line(detail)})
	}
	if n.Leaving != "" {
		for _, o := range left(l, false) {
			say(o, remove, "its deletion was begun, and is finished first")
		}
		disks := map[string]*unstructured.Unstructured{}
		for _, v := range l.volumes() {
			disks[objectKey(v)] = v
		}
		l = &live{objects: disks}
	}
	var anchor types.UID
	if l.anchor != nil {
		anchor = l.anchor.GetUID()
	}
	wishes, later := k.wishes(r, n, args, objects, l)
	if later != "" {
		all = append(all, provisioner.Change{Ref: "PersistentVolumeClaim", Action: string(update), Detail: later})
	}
	steps, _ := k.steps(n, wishes, l)
	grown, _ := growths(objects, l)
	steps = append(steps, grown...)
	for _, s := range steps {
		switch s.do {
		case keep, free:
		case create:
			say(s.wish.Unstructured, create, "")
		case wait:
			say(s.was, "replace", heldBy(s.was))
		case grow:
			say(s.was, update, fmt.Sprintf("%s: %s -> %s", fieldPath(pathRequest), size(s.was, pathRequest), size(s.wish.Unstructured, pathRequest)))
		case remove:
			say(s.was, remove, "no template asks for it")
		case update:
			if err := k.planUpdate(ctx, n, s, anchor, say); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// planUpdate asks what an object would become.
func (k *Kubernetes) planUpdate(ctx context.Context, n *notes, s step, anchor types.UID, say func(*unstructured.Unstructured, action, string)) error {
	o := k.conditioned(s.wish, n.Write, s.was, anchor)
	if throughRolling(o, s.was) != nil {
		say(s.was, update, "spec.strategy.type: RollingUpdate -> Recreate")
		return nil
	}
	is, err := k.cluster.apply(ctx, o, true)
	if isConflict(err) {
		return errMoved
	}
	if err != nil && !errors.Is(err, provisioner.ErrInvalid) && !errors.Is(err, provisioner.ErrNoCapacity) {
		return err
	}
	if err != nil {
		say(s.was, update, "is refused: "+err.Error())
		return nil //nolint:nilerr // that is what would happen
	}
	var texts []string
	for _, d := range changesOf(stripped(s.was), stripped(is), nil) {
		texts = append(texts, d.text(s.was.GetKind() == "Secret"))
	}
	if len(texts) > 0 {
		say(s.was, update, strings.Join(texts, "; "))
	}
	return nil
}

// stripped is an object without what the cluster counts and notes by itself, and our mark.
func stripped(o *unstructured.Unstructured) map[string]any {
	c := o.DeepCopy()
	delete(c.Object, "status")
	for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
		unstructured.RemoveNestedField(c.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(c.Object, "metadata", "annotations", annotationApplied)
	if len(c.GetAnnotations()) == 0 {
		unstructured.RemoveNestedField(c.Object, "metadata", "annotations")
	}
	return c.Object
}
