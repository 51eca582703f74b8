package kubernetes

import (
	"cmp"
	"context"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// claimTemplates are the templates of the disks that a StatefulSet makes, by their names.
func claimTemplates(o *unstructured.Unstructured) map[string]*unstructured.Unstructured {
	list, _ := at(o.Object, "spec")["volumeClaimTemplates"].([]any)
	all := map[string]*unstructured.Unstructured{}
	for _, c := range list {
		if claim, ok := c.(map[string]any); ok {
			one := &unstructured.Unstructured{Object: claim}
			all[one.GetName()] = one
		}
	}
	return all
}

// keepClaims has a StatefulSet ask for disks as large as it does now: that can not be changed. It makes new disks of that size, and
// those that there are grow one by one.
func keepClaims(w *wish, was *unstructured.Unstructured) {
	had, changed := claimTemplates(was), false
	for name, claim := range claimTemplates(w.Unstructured) {
		before := had[name]
		if before == nil {
			continue
		}
		want, has := size(claim, pathRequest), size(before, pathRequest)
		if want != nil && has != nil && want.Cmp(*has) != 0 {
			changed = unstructured.SetNestedField(claim.Object, has.String(), pathRequest...) == nil || changed
		}
	}
	if changed {
		w.sum()
	}
}

var ordinal = regexp.MustCompile(`\A[0-9]+\z`)

// growths are the disks of StatefulSets that are to change their sizes. later is what can not grow yet.
func growths(objects []Object, l *live) (all []step, later string) {
	for _, o := range objects {
		if o.GetKind() != "StatefulSet" {
			continue
		}
		for name, claim := range claimTemplates(o.Unstructured) {
			want := size(claim, pathRequest)
			for _, disk := range l.volumes() {
				number, ours := strings.CutPrefix(disk.GetName(), name+"-"+o.GetName()+"-")
				if want == nil || !ours || !ordinal.MatchString(number) || isLeaving(disk) {
					continue
				}
				w := wish{Unstructured: disk.DeepCopy(), key: objectKey(disk)}
				if unstructured.SetNestedField(w.Object, want.String(), pathRequest...) != nil {
					continue
				}
				later = cmp.Or(later, keepSize(&w, disk))
				if is, was := size(w.Unstructured, pathRequest), size(disk, pathRequest); is != nil && was != nil && is.Cmp(*was) != 0 {
					all = append(all, step{do: grow, wish: w, was: disk})
				}
			}
		}
	}
	return all, later
}

// grow changes the size of a disk that a StatefulSet made.
func (k *Kubernetes) grow(ctx context.Context, s step) (*unstructured.Unstructured, error) {
	want := size(s.wish.Unstructured, pathRequest).String()
	is, err := k.cluster.merge(ctx, s.was, map[string]any{
		"metadata": map[string]any{"uid": string(s.was.GetUID()), "resourceVersion": s.was.GetResourceVersion()},
		"spec":     map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": want}}},
	})
	if isConflict(err) || isGone(err) {
		return nil, errMoved
	}
	return is, err
}
