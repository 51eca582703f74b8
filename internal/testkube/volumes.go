package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
)

// driverName is that of the simulated storage. A driver's name has to be a DNS name.
const driverName = "volumes.testkube.test"

// Annotations between Kubernetes' controllers and a driver.
const (
	provisionerAnnotation = "volume.kubernetes.io/storage-provisioner" // of a claim that waits for this driver
	madeByAnnotation      = "pv.kubernetes.io/provisioned-by"
	defaultAnnotation     = "storageclass.kubernetes.io/is-default-class"
)

// makeClasses makes what a storage driver is installed with.
//
//	standard  the default one: grows
//	fixed     does not grow: the API server refuses it
//	waiting   grows; the volume is made when a pod that needs it has a node
func makeClasses(ctx context.Context, client kubernetes.Interface) error {
	// Nothing is to be attached to a node: there is no one who would say that it was.
	driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverName}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(false)}}
	if err := keepTrying(ctx, func() error {
		_, err := client.StorageV1().CSIDrivers().Create(ctx, driver, metav1.CreateOptions{})
		return err
	}); err != nil {
		return err
	}
	for _, c := range []struct {
		name    string
		binding storagev1.VolumeBindingMode
		grows   bool
	}{
		{"standard", storagev1.VolumeBindingImmediate, true},
		{"fixed", storagev1.VolumeBindingImmediate, false},
		{"waiting", storagev1.VolumeBindingWaitForFirstConsumer, true},
	} {
		class := &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: c.name}, Provisioner: driverName, ReclaimPolicy: new(corev1.PersistentVolumeReclaimDelete),
			VolumeBindingMode: &c.binding, AllowVolumeExpansion: &c.grows,
		}
		if c.name == "standard" {
			class.Annotations = map[string]string{defaultAnnotation: "true"}
		}
		if err := keepTrying(ctx, func() error {
			_, err := client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{})
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// driver makes volumes for claims, makes them larger, and takes away those that were released, as a storage driver's own controllers do.
// Binding a claim to its volume is the work of Kubernetes' controllers.
type driver struct {
	client  kubernetes.Interface
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	classes storagelisters.StorageClassLister
	events  record.EventRecorder
}

func (d *driver) syncClaim(ctx context.Context, name cache.ObjectName) error {
	claim, err := d.claims.PersistentVolumeClaims(name.Namespace).Get(name.Name)
	if err != nil {
		return err
	}
	switch {
	case claim.DeletionTimestamp != nil, claim.Annotations[provisionerAnnotation] != driverName:
		return nil
	case claim.Spec.VolumeName == "":
		return d.make(ctx, claim)
	case claim.Status.Phase == corev1.ClaimBound:
		return d.grow(ctx, claim)
	default:
		return nil
	}
}

// make makes the volume of a claim. Its name comes from the claim, so it is made once.
func (d *driver) make(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	if why := claim.Annotations[failAnnotation]; why != "" {
		d.events.Event(claim, corev1.EventTypeWarning, "ProvisioningFailed", why)
		return nil
	}
	name := "pvc-" + string(claim.UID)
	if _, err := d.volumes.Get(name); err == nil {
		return nil
	}
	class, err := d.classes.Get(*claim.Spec.StorageClassName)
	if err != nil {
		return err
	}
	_, err = d.client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{madeByAnnotation: driverName}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes: claim.Spec.AccessModes, VolumeMode: claim.Spec.VolumeMode,
			PersistentVolumeReclaimPolicy: *class.ReclaimPolicy, StorageClassName: class.Name,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: driverName, VolumeHandle: string(claim.UID),
			}},
		},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// grow makes the volume of a claim as large as it asks for, then says so in the claim.
func (d *driver) grow(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	want, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	changed := claim.DeepCopy()
	switch why := claim.Annotations[failAnnotation]; {
	case want.Cmp(has) <= 0 && claim.Status.AllocatedResourceStatuses == nil && len(others(claim)) == len(claim.Status.Conditions):
		return nil
	case want.Cmp(has) <= 0: // it had failed, and asks for less now
		settle(changed, has)
	case why != "":
		if isFailed(claim, want) {
			return nil
		}
		fail(changed, want, why)
		d.events.Event(claim, corev1.EventTypeWarning, "VolumeResizeFailed", why)
	default:
		if err := d.enlarge(ctx, claim.Spec.VolumeName, want); err != nil {
			return err
		}
		settle(changed, want)
	}
	_, err := d.client.CoreV1().PersistentVolumeClaims(claim.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	return err
}

func (d *driver) enlarge(ctx context.Context, name string, to resource.Quantity) error {
	volume, err := d.volumes.Get(name)
	if err != nil {
		return err
	}
	if has := volume.Spec.Capacity[corev1.ResourceStorage]; has.Cmp(to) >= 0 {
		return nil
	}
	volume = volume.DeepCopy()
	volume.Spec.Capacity[corev1.ResourceStorage] = to
	_, err = d.client.CoreV1().PersistentVolumes().Update(ctx, volume, metav1.UpdateOptions{})
	return err
}

// settle says of a claim that it is as large as that, and nothing is under way.
func settle(claim *corev1.PersistentVolumeClaim, size resource.Quantity) {
	s := &claim.Status
	s.Capacity[corev1.ResourceStorage] = size
	s.AllocatedResources = corev1.ResourceList{corev1.ResourceStorage: size}
	s.AllocatedResourceStatuses, s.Conditions = nil, others(claim)
}

// others are the conditions that are no matter of growing: Kubernetes' controllers write some too, and would write them again.
func others(claim *corev1.PersistentVolumeClaim) (all []corev1.PersistentVolumeClaimCondition) {
	for _, c := range claim.Status.Conditions {
		if c.Type != corev1.PersistentVolumeClaimControllerResizeError {
			all = append(all, c)
		}
	}
	return all
}

func fail(claim *corev1.PersistentVolumeClaim, want resource.Quantity, why string) {
	s := &claim.Status
	s.AllocatedResources = corev1.ResourceList{corev1.ResourceStorage: want}
	s.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
		corev1.ResourceStorage: corev1.PersistentVolumeClaimControllerResizeInfeasible,
	}
	s.Conditions = append(others(claim), corev1.PersistentVolumeClaimCondition{
		Type: corev1.PersistentVolumeClaimControllerResizeError, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(), Message: why,
	})
}

// isFailed says whether the claim says already that it can not be as large as that.
func isFailed(claim *corev1.PersistentVolumeClaim, want resource.Quantity) bool {
	asked := claim.Status.AllocatedResources[corev1.ResourceStorage]
	state := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]
	return state == corev1.PersistentVolumeClaimControllerResizeInfeasible && asked.Cmp(want) == 0
}

// syncVolume takes away a volume whose claim is gone.
func (d *driver) syncVolume(ctx context.Context, name cache.ObjectName) error {
	v, err := d.volumes.Get(name.Name)
	if err != nil {
		return err
	}
	if v.Annotations[madeByAnnotation] != driverName || v.Status.Phase != corev1.VolumeReleased || v.DeletionTimestamp != nil ||
		v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		return nil
	}
	return d.client.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &v.UID}})
}
