package kubernetes

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// noVersion is a version that no object has. Who applies with it makes an object, and is refused if there is one. Unlike an object that
// is created in another way, it is then ours by apply, so that a field goes when it is left out.
const noVersion = "1"

// create makes an object that is not there. anchor owns it; empty: nobody.
func (k *Kubernetes) create(ctx context.Context, n *notes, w wish, anchor types.UID, provisionID string) (*unstructured.Unstructured, error) {
	o := k.marked(w, n.Write)
	if anchor != "" {
		ownedBy(o, anchor, anchorName(provisionID))
	}
	o.SetResourceVersion(noVersion)
	made, err := k.cluster.apply(ctx, o, false)
	if isConflict(err) {
		return nil, k.taken(ctx, o)
	}
	if err != nil {
		return nil, err
	}
	n.note(w, made)
	return made, nil
}

// release takes the owner off a disk. It is made with one, so that it goes if nobody knows of it: if its maker stood still and all else
// was deleted meanwhile. Once there is a volume behind it, it stays whatever goes. It is not released before that: the cluster writes a
// new disk itself to bind it, starts again from the beginning when somebody else writes it meanwhile, and takes seconds for that.
func (k *Kubernetes) release(ctx context.Context, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if anchorOf(o) == "" {
		return o, nil
	}
	// Its uid is condition enough: the cluster writes a new disk again and again, and to let go of one twice is to let go of it.
	released, err := k.cluster.merge(ctx, o, map[string]any{"metadata": map[string]any{"uid": string(o.GetUID()), "ownerReferences": nil}})
	if isConflict(err) || isGone(err) {
		return nil, errMoved
	}
	return released, err
}

// conditions are metadata of a patch that holds for this very version of an object only.
func conditions(o *unstructured.Unstructured, key string, value any) map[string]any {
	return map[string]any{"uid": string(o.GetUID()), "resourceVersion": o.GetResourceVersion(), key: value}
}

// taken says whose the object is that stands in the way of one of ours.
func (k *Kubernetes) taken(ctx context.Context, o *unstructured.Unstructured) error {
	there, err := k.cluster.get(ctx, o.GroupVersionKind(), o.GetName())
	if err != nil {
		return err
	}
	if there == nil || k.mine(there) && there.GetLabels()[LabelResource] == o.GetLabels()[LabelResource] {
		return errMoved // somebody else who works for us, or we ourselves, without having heard the answer
	}
	labels := there.GetLabels()
	whose := "somebody else's"
	if labels[LabelManagedBy] == Manager {
		whose = fmt.Sprintf("that of provisioner %q of installation %q", labels[LabelProvisioner], labels[LabelInstallation])
	}
	return says(errTaken, fmt.Sprintf("%s is there already, and is %s: it is left alone", titleOf(o), whose))
}

// apply changes an object that is there, if it is still what was seen.
func (k *Kubernetes) apply(ctx context.Context, n *notes, w wish, was *unstructured.Unstructured, anchor types.UID) (*unstructured.Unstructured, error) {
	o := k.conditioned(w, n.Write, was, anchor)
	// How many pods there are comes first: all that is applied after it says nothing of that.
	if err := k.applyBefore(ctx, managerOfReplicas, throughReplicas(o, was), o); err != nil {
		return nil, err
	}
	if err := k.applyBefore(ctx, Manager, throughRolling(o, was), o); err != nil {
		return nil, err
	}
	is, err := k.cluster.apply(ctx, o, false)
	if isConflict(err) {
		return nil, errMoved
	}
	if err != nil {
		return nil, err
	}
	n.note(w, is)
	return is, nil
}

// applyBefore applies what has to come before an object, if anything has to. The object is then conditional on what came of it.
func (k *Kubernetes) applyBefore(ctx context.Context, manager string, via, o *unstructured.Unstructured) error {
	if via == nil {
		return nil
	}
	via.SetUID(o.GetUID())
	via.SetResourceVersion(o.GetResourceVersion())
	is, err := k.cluster.applyAs(ctx, manager, via, false)
	if isConflict(err) {
		return errMoved
	}
	if err != nil {
		return err
	}
	o.SetResourceVersion(is.GetResourceVersion())
	return nil
}

// conditioned is a wish as it is applied to what is there.
func (k *Kubernetes) conditioned(w wish, token string, was *unstructured.Unstructured, anchor types.UID) *unstructured.Unstructured {
	o := k.marked(w, token)
	if !isVolume(o) && !isAnchor(o) {
		ownedBy(o, anchor, anchorName(w.GetLabels()[LabelInstance]))
	}
	o.SetUID(was.GetUID())
	o.SetResourceVersion(was.GetResourceVersion())
	return o
}

func (k *Kubernetes) marked(w wish, token string) *unstructured.Unstructured {
	o := w.DeepCopy()
	a := o.GetAnnotations()
	if a == nil {
		a = map[string]string{}
	}
	a[annotationApplied] = w.mark(token)
	o.SetAnnotations(a)
	return o
}

// free releases the disks of which nothing has become yet what the cluster would write, where all is as it is to be without.
func (k *Kubernetes) free(ctx context.Context, n *notes, l *live) error {
	for _, v := range l.volumes() {
		if anchorOf(v) == "" {
			continue
		}
		is, err := k.freeOne(ctx, n, v)
		if err != nil {
			return err
		}
		l.objects[objectKey(is)] = is
	}
	return nil
}

// freeOne releases a disk, and notes what is ours of it since.
func (k *Kubernetes) freeOne(ctx context.Context, n *notes, v *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	is, err := k.release(ctx, v)
	if err != nil {
		return nil, err
	}
	if noted, known := n.Seen[objectKey(is)]; known {
		noted.Ours, noted.Version = oursDigest(is), is.GetResourceVersion()
		n.Seen[objectKey(is)] = noted
	}
	return is, nil
}

func (n *notes) note(w wish, is *unstructured.Unstructured) {
	n.Seen[w.key] = seen{Mark: is.GetAnnotations()[annotationApplied], Ours: oursDigest(is), Version: is.GetResourceVersion()}
}

// throughRolling is what has to be applied before a Deployment can be changed to Recreate: the cluster refuses it while the fields are
// there that it had filled in, and they only go if they were ours.
func throughRolling(o, was *unstructured.Unstructured) *unstructured.Unstructured {
	kind, _, _ := unstructured.NestedString(o.Object, "spec", "strategy", "type")
	rolling, there, _ := unstructured.NestedMap(was.Object, "spec", "strategy", "rollingUpdate")
	if o.GetKind() != "Deployment" || kind != "Recreate" || !there {
		return nil
	}
	// All else stays as it is: pods would be replaced twice. So does our mark: if nothing comes after it, this is not what was asked for.
	via := o.DeepCopy()
	marks := via.GetAnnotations()
	marks[annotationApplied] = was.GetAnnotations()[annotationApplied]
	via.SetAnnotations(marks)
	spec, ok := via.Object["spec"].(map[string]any)
	if !ok {
		return nil
	}
	spec["strategy"] = map[string]any{"type": "RollingUpdate", "rollingUpdate": rolling}
	if template, ok := at(was.Object, "spec")["template"]; ok {
		spec["template"] = template
	}
	return via
}

// managerOfReplicas has what a template says no more of how many pods there are.
const managerOfReplicas = Manager + "-replicas"

// throughReplicas is what has to be applied, under another name, before we ask for a number of pods no more: a field goes with its last
// owner, and one pod would be left of those that run.
func throughReplicas(o, was *unstructured.Unstructured) *unstructured.Unstructured {
	_, asked, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "replicas")
	is, there, _ := unstructured.NestedInt64(was.Object, "spec", "replicas")
	m := ours(was)
	if asked || !there || is == 1 || !workloads[o.GetKind()] || m == nil || !strings.Contains(m.FieldsV1.GetRawString(), `"f:replicas":{}`) {
		return nil
	}
	via := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": is}}}
	via.SetGroupVersionKind(o.GroupVersionKind())
	via.SetName(o.GetName())
	via.SetNamespace(o.GetNamespace())
	return via
}
