package kubernetes

import (
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth/provisioner"
)

// volumePrefix begins the keys of disks.
const volumePrefix = "PersistentVolumeClaim/"

var (
	pathRequest  = []string{"spec", "resources", "requests", "storage"}
	pathCapacity = []string{"status", "capacity", "storage"}
)

// size is a quantity of an object; nil if there is none.
func size(o *unstructured.Unstructured, path []string) *resource.Quantity {
	v, _, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
	if v == nil {
		return nil
	}
	q, err := resource.ParseQuantity(fmt.Sprint(v))
	if err != nil {
		return nil
	}
	return &q
}

// keepSize has a disk not shrink: it asks for what it asks for now, if that is more. What it has not grown to yet is taken back: a cluster
// lets a disk ask for less, down to just above what it has. It lets only a disk grow that is bound; later says of one that is not that it
// will have to.
func keepSize(w *wish, was *unstructured.Unstructured) (later string) {
	want, asked, has := size(w.Unstructured, pathRequest), size(was, pathRequest), size(was, pathCapacity)
	if want == nil || asked == nil || want.Cmp(*asked) == 0 {
		return ""
	}
	switch {
	case want.Cmp(*asked) > 0 && isBound(was):
		return ""
	case want.Cmp(*asked) > 0:
		later = fmt.Sprintf("%s can grow from %s to %s once it is bound", titleOf(was), asked, want)
	case has != nil && want.Cmp(*has) > 0:
		return ""
	}
	if unstructured.SetNestedField(w.Object, asked.String(), pathRequest...) == nil {
		w.sum()
	}
	return later
}

// isBound reports whether there is a volume behind a disk.
func isBound(o *unstructured.Unstructured) bool {
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	return phase == "Bound"
}

// cannotGrow says of a disk that may not be changed what it has and what was asked for.
func cannotGrow(s step, err error) error {
	want, asked, has := size(s.wish.Unstructured, pathRequest), size(s.was, pathRequest), size(s.was, pathCapacity)
	if want == nil || asked == nil || want.Cmp(*asked) <= 0 || !errors.Is(err, provisioner.ErrInvalid) || !apierrors.IsForbidden(err) {
		return err
	}
	if has == nil {
		has = asked
	}
	class, _, _ := unstructured.NestedString(s.was.Object, "spec", "storageClassName")
	return &failing{class: provisioner.ErrInvalid, cause: err, text: line(fmt.Sprintf(
		"%s has %s and can not grow to %s: storage class %q does not allow it; it is kept as it is: %v", titleOf(s.was), has, want, class, err))}
}

// lostDisk is a disk that is on its way out; nil if none is.
func lostDisk(l *live) *unstructured.Unstructured {
	for _, disk := range l.volumes() {
		if isLeaving(disk) {
			return disk
		}
	}
	return nil
}

// lostBy says why a disk is still there that somebody deleted, and what that means.
func lostBy(disk *unstructured.Unstructured) string {
	return heldBy(disk) + ": what is on it goes with it, and a new one is made then"
}

// config is how a runtime is reached, and what it has. Its disk is as large as the cluster says that it is, whatever was asked for.
func (k *Kubernetes) config(r provisioner.Resource, args provisioner.RuntimeArgs, disk *unstructured.Unstructured) provisioner.RuntimeConfig {
	c := k.spec.RuntimeConfig(r, args)
	if disk == nil {
		return c
	}
	if has := hasSize(disk); has != nil {
		c.StorageBytes = has.Value()
	}
	return c
}

// hasSize is how large a disk is, or is to be where there is none yet.
func hasSize(disk *unstructured.Unstructured) *resource.Quantity {
	if has := size(disk, pathCapacity); has != nil {
		return has
	}
	return size(disk, pathRequest)
}

// told is the disk whose size is told: that of the template pvc, or else the first that there is.
func told(r provisioner.Resource, wishes []wish, l *live) *unstructured.Unstructured {
	if disk := l.objects[volumePrefix+nameOf("pvc", r.ProvisionID())]; disk != nil {
		return disk
	}
	if i := slices.IndexFunc(wishes, func(w wish) bool { return isVolume(w.Unstructured) }); i >= 0 {
		return l.objects[wishes[i].key]
	}
	for _, disk := range l.volumes() {
		return disk
	}
	return nil
}
