package kubetest

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	applycore "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/stretchr/testify/require"
)

func claim(name, class, size string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class,
			Resources: corev1.VolumeResourceRequirements{Requests: quantities("storage", size)},
		},
	}
}

func create(t *testing.T, n *Namespace, c *corev1.PersistentVolumeClaim) {
	t.Helper()
	_, err := n.Client.CoreV1().PersistentVolumeClaims(n.Name).Create(t.Context(), c, metav1.CreateOptions{})
	require.NoError(t, err)
}

func awaitClaim(t *testing.T, n *Namespace, name, what string, so func(*corev1.PersistentVolumeClaim) bool) *corev1.PersistentVolumeClaim {
	t.Helper()
	var is *corev1.PersistentVolumeClaim
	until(t, "claim "+name+" "+what, func(ctx context.Context) (_ bool, err error) {
		is, err = n.Client.CoreV1().PersistentVolumeClaims(n.Name).Get(ctx, name, metav1.GetOptions{})
		return err == nil && so(is), err
	})
	return is
}

func isBound(c *corev1.PersistentVolumeClaim) bool { return c.Status.Phase == corev1.ClaimBound }

func hasSize(size string) func(*corev1.PersistentVolumeClaim) bool {
	return func(c *corev1.PersistentVolumeClaim) bool {
		want := resource.MustParse(size)
		return c.Status.Capacity.Storage().Cmp(want) == 0
	}
}

// update changes a claim, whoever changes it too.
func update(t *testing.T, n *Namespace, name string, change func(*corev1.PersistentVolumeClaim)) error {
	t.Helper()
	claims := n.Client.CoreV1().PersistentVolumeClaims(n.Name)
	for {
		is, err := claims.Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		change(is)
		if _, err = claims.Update(t.Context(), is, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			return err
		}
	}
}

func resize(t *testing.T, n *Namespace, name, size string) error {
	t.Helper()
	return update(t, n, name, func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources.Requests = quantities("storage", size) })
}

func TestVolumeGrows(t *testing.T) {
	t.Parallel()
	n := New(t)
	create(t, n, claim("data", ClassStandard, "1Gi"))
	is := awaitClaim(t, n, "data", "is bound", isBound)
	require.True(t, hasSize("1Gi")(is))
	require.NoError(t, resize(t, n, "data", "2Gi"))
	is = awaitClaim(t, n, "data", "has grown", hasSize("2Gi"))
	require.Empty(t, is.Status.Conditions)
	volume, err := n.Client.CoreV1().PersistentVolumes().Get(t.Context(), is.Spec.VolumeName, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "2Gi", volume.Spec.Capacity.Storage().String())
	require.True(t, apierrors.IsInvalid(resize(t, n, "data", "1Gi")), "it never shrinks")
}

func TestVolumeDoesNotGrow(t *testing.T) {
	t.Parallel()
	n := New(t)
	create(t, n, claim("data", ClassFixed, "1Gi"))
	awaitClaim(t, n, "data", "is bound", isBound)
	err := resize(t, n, "data", "2Gi")
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	require.ErrorContains(t, err, "the storageclass that provisions the pvc must support resize")
}

func TestVolumeThatFailsToGrow(t *testing.T) {
	t.Parallel()
	n := New(t)
	c := claim("data", ClassStandard, "1Gi")
	create(t, n, c)
	awaitClaim(t, n, "data", "is bound", isBound)
	require.NoError(t, update(t, n, "data", func(c *corev1.PersistentVolumeClaim) {
		c.Annotations[FailAnnotation] = "no space left in the pool"
		c.Spec.Resources.Requests = quantities("storage", "4Gi")
	}))
	is := awaitClaim(t, n, "data", "has failed to grow", func(c *corev1.PersistentVolumeClaim) bool { return len(c.Status.Conditions) > 0 })
	require.Equal(t, corev1.PersistentVolumeClaimControllerResizeError, is.Status.Conditions[0].Type)
	require.Equal(t, "no space left in the pool", is.Status.Conditions[0].Message)
	require.True(t, hasSize("1Gi")(is))
	require.Contains(t, awaitEvent(t, n, "VolumeResizeFailed"), "no space left")

	require.NoError(t, update(t, n, "data", func(c *corev1.PersistentVolumeClaim) {
		delete(c.Annotations, FailAnnotation)
		c.Spec.Resources.Requests = quantities("storage", "2Gi")
	}), "after a failure it may ask for less")
	is = awaitClaim(t, n, "data", "has grown", hasSize("2Gi"))
	require.Empty(t, is.Status.Conditions)
}

func TestVolumeThatIsNotMade(t *testing.T) {
	t.Parallel()
	n := New(t)
	c := claim("data", ClassStandard, "1Gi")
	c.Annotations[FailAnnotation] = "quota of the zone exceeded"
	create(t, n, c)
	require.Contains(t, awaitEvent(t, n, "ProvisioningFailed"), "quota of the zone exceeded")
	require.NoError(t, update(t, n, "data", func(c *corev1.PersistentVolumeClaim) { delete(c.Annotations, FailAnnotation) }))
	awaitClaim(t, n, "data", "is bound", isBound)
}

func TestVolumeGoesWithItsClaim(t *testing.T) {
	t.Parallel()
	n := New(t)
	create(t, n, claim("data", ClassStandard, "1Gi"))
	is := awaitClaim(t, n, "data", "is bound", isBound)
	require.NoError(t, n.Client.CoreV1().PersistentVolumeClaims(n.Name).Delete(t.Context(), "data", metav1.DeleteOptions{}))
	until(t, "the volume is gone", func(ctx context.Context) (bool, error) {
		_, err := n.Client.CoreV1().PersistentVolumes().Get(ctx, is.Spec.VolumeName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}

func TestVolumeWaitsForItsPod(t *testing.T) {
	t.Parallel()
	n := New(t)
	create(t, n, claim("data", ClassWaiting, "1Gi"))
	awaitEvent(t, n, "WaitForFirstConsumer")
	d := deployment(n, "web")
	d.Spec.Template.Spec.WithVolumes(applycore.Volume().WithName("data").
		WithPersistentVolumeClaim(applycore.PersistentVolumeClaimVolumeSource().WithClaimName("data")))
	apply(t, n, d)
	awaitAvailable(t, n, "web")
	awaitClaim(t, n, "data", "is bound", isBound)
}
