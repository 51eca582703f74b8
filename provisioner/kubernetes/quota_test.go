package kubernetes

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"berth/provisioner"
)

// quota makes a quota, and waits until it is in force.
func (w *world) quota(t *testing.T, name string, of corev1.ResourceName, most string) {
	t.Helper()
	quotas := w.Client.CoreV1().ResourceQuotas(w.Name)
	_, err := quotas.Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{of: resource.MustParse(most)}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	until(t, "the quota is in force", func() (bool, string) {
		q, err := quotas.Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		return len(q.Status.Hard) > 0, ""
	})
}

// No room by a quota: the figures are told, it waits, and starts by itself when the quota is raised.
func TestQuotaRaised(t *testing.T) {
	t.Parallel()
	w := newWorld(t, written(t, suiteTemplates))
	w.quota(t, "small", "pods", "0")
	k := w.open(t, "k8s-a")
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	o, err := driveToReason(t, k.Reconcile, r, reasonQuota)
	require.ErrorIs(t, err, provisioner.ErrNoCapacity)
	require.Equal(t, provisioner.PhasePending, o.Phase)
	require.Contains(t, o.Message, "exceeded quota: small, requested: pods=1, used: pods=0, limited: pods=0")
	_, err = w.Client.CoreV1().ResourceQuotas(w.Name).Patch(t.Context(), "small", "application/merge-patch+json", []byte(`{"spec":{"hard":{"pods":"9"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	until(t, "it starts", func() (bool, string) {
		o, err = k.Reconcile(t.Context(), r)
		return err == nil && o.Phase == provisioner.PhaseReady, o.Message
	})
}

// There is more room where more is left of anything, or less is limited; not where others take some.
func TestRoom(t *testing.T) {
	t.Parallel()
	left := func(hard, used string) map[string]resource.Quantity {
		o := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte("kind: ResourceQuota\nstatus: {hard: "+hard+", used: "+used+"}"), &o.Object))
		return leftOf(o)
	}
	before := left(`{pods: "3", requests.cpu: "2"}`, `{pods: "3", requests.cpu: 1500m}`)
	for _, c := range []struct {
		hard, used string
		more       bool
	}{
		{`{pods: "3", requests.cpu: "2"}`, `{pods: "3", requests.cpu: "1.5"}`, false},
		{`{pods: "3", requests.cpu: "2"}`, `{pods: "3", requests.cpu: "2"}`, false},
		{`{pods: "2", requests.cpu: "2"}`, `{pods: "3", requests.cpu: "2"}`, false},
		{`{pods: "3", requests.cpu: "2", services: "1"}`, `{pods: "3", requests.cpu: "2"}`, false},
		{`{pods: "3", requests.cpu: "2"}`, `{pods: "2", requests.cpu: "2"}`, true},
		{`{pods: "4", requests.cpu: "2"}`, `{pods: "3", requests.cpu: "2"}`, true},
		{`{pods: "3"}`, `{pods: "3"}`, true},
	} {
		require.Equal(t, c.more, isRoomier(before, left(c.hard, c.used)), "%+v", c)
	}
}

// So it is with a StatefulSet, of which only events say why it has no pods: also to a worker that begins after they were written.
func TestQuotaOfAStatefulSet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, templates(t, "testdata/sets/game-server"))
	w.quota(t, "small", "pods", "0")
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	for range 2 {
		k := w.open(t, "k8s-a")
		listen(t, k)
		o, err := driveToReason(t, k.Reconcile, r, reasonQuota)
		require.ErrorIs(t, err, provisioner.ErrNoCapacity)
		require.Contains(t, o.Message, "exceeded quota: small, requested: pods=1, used: pods=0, limited: pods=0")
	}
	k := w.open(t, "k8s-a")
	_, err := w.Client.CoreV1().ResourceQuotas(w.Name).Patch(t.Context(), "small", "application/merge-patch+json", []byte(`{"spec":{"hard":{"pods":"9"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	until(t, "it starts", func() (bool, string) {
		o, err := k.Reconcile(t.Context(), r)
		return err == nil && o.Phase == provisioner.PhaseReady, o.Message
	})
}

// The disk itself may be what there is no room for.
func TestQuotaOfDisks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, written(t, suiteTemplates))
	w.quota(t, "disks", "persistentvolumeclaims", "0")
	k := w.open(t, "k8s-a")
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	o, err := k.Reconcile(t.Context(), r)
	require.ErrorIs(t, err, provisioner.ErrNoCapacity)
	require.ErrorContains(t, err, "exceeded quota: disks")
	require.Equal(t, provisioner.PhasePending, o.Phase)
	capacity, err := k.Check(t.Context())
	require.NoError(t, err)
	require.Contains(t, strings.Join(capacity.Problems, "\n"), "quota disks: 0 of 0 of persistentvolumeclaims used, 0 left")
	drive(t, k.Deprovision, r, provisioner.PhaseAbsent)
}

// A quota that is below what is used stands in the way of what would use more, and of nothing else.
func TestQuotaBelowUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, written(t, suiteTemplates))
	k := w.open(t, "k8s-a")
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
	w.quota(t, "storage", "requests.storage", "500M")
	require.NoError(t, w.Client.CoreV1().Services(w.Name).Delete(t.Context(), "runtime-"+r.ProvisionID(), metav1.DeleteOptions{}))
	until(t, "the Service is back", func() (bool, string) {
		drive(t, k.Reconcile, r, provisioner.PhaseReady)
		return len(w.uids("k8s-a", r.ID, "Service")) == 1, ""
	})
	pods, config := w.uids("k8s-a", r.ID, "Pod"), string(r.Config)
	r.Args = provisioner.Encode(provisioner.RuntimeArgs{Slots: 2})
	var o provisioner.Observation
	var err error
	until(t, "it is refused", func() (bool, string) {
		o, err = k.Reconcile(t.Context(), r)
		return err != nil, ""
	})
	require.ErrorIs(t, err, provisioner.ErrNoCapacity)
	require.ErrorContains(t, err, "exceeded quota: storage, requested: requests.storage=1G, used: requests.storage=1G, limited: requests.storage=500M")
	require.Equal(t, provisioner.PhaseReady, o.Phase)
	require.Equal(t, config, string(r.Config))
	require.Equal(t, pods, w.uids("k8s-a", r.ID, "Pod"))
}

// busyQuota answers every third write of what quotas count as a cluster does whose quota others change at the same moment.
type busyQuota struct {
	next http.RoundTripper
	n    *atomic.Int64
}

const busyQuotaAnswer = `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Conflict", "code": 409,
	"message": "Operation cannot be fulfilled on resourcequotas \"tenants-quota\": the object has been modified; please apply your changes to the latest version and try again",
	"details": {"name": "tenants-quota", "kind": "resourcequotas"}}`

func (b busyQuota) RoundTrip(r *http.Request) (*http.Response, error) {
	counted := strings.Contains(r.URL.Path, "/services/") || strings.Contains(r.URL.Path, "/persistentvolumeclaims/")
	if r.Method != http.MethodPatch || !counted || b.n.Add(1)%3 != 0 {
		return b.next.RoundTrip(r)
	}
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}
	return &http.Response{
		StatusCode: http.StatusConflict, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r, ContentLength: int64(len(busyQuotaAnswer)),
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader([]byte(busyQuotaAnswer))),
	}, nil
}

func (b busyQuota) WrappedRoundTripper() http.RoundTripper { return b.next }

// Two hundred are made at once beside a quota that everybody changes: they come to run, nobody is blamed, and nobody else's field is seen
// in it.
func TestQuotaConflicts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, written(t, unmounted(t)))
	answered := &atomic.Int64{}
	w.via = func(next http.RoundTripper) http.RoundTripper { return busyQuota{next, answered} }
	k := w.open(t, "k8s-a")
	room := make(chan struct{}, 20)
	require.NoError(t, sideBySide(200, func(int) error {
		room <- struct{}{}
		defer func() { <-room }()
		r := newResource(provisioner.RuntimeArgs{Slots: 1})
		for end := time.Now().Add(patience); time.Now().Before(end); {
			o, err := k.Reconcile(t.Context(), r)
			switch {
			case err != nil:
				return err
			case o.Reason == reasonContested || len(readNotes(r).Contests) > 0:
				return fmt.Errorf("%+v", o)
			case o.Phase == provisioner.PhaseReady:
				return nil
			}
		}
		return errors.New("it does not come to run")
	}))
	require.Greater(t, answered.Load(), int64(3*200/3))
}
