package kubernetes

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"berth/provisioner"
	"berth/provisioner/kubernetes/kubetest"
)

// A namespace that is being deleted, and can not end because of somebody's finalizer: nothing is made there and no resource is blamed,
// what is there is removed, and nothing is taken for gone that is not.
func TestNamespaceIsDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, written(t, suiteTemplates))
	k := w.open(t, "k8s-a")
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
	maps := w.Client.CoreV1().ConfigMaps(w.Name)
	_, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "holder", Finalizers: []string{"example.test/holds"}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	release := func() {
		_, err := maps.Patch(context.Background(), "holder", "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	defer release()
	require.NoError(t, w.Client.CoreV1().Namespaces().Delete(t.Context(), w.Name, metav1.DeleteOptions{}))
	other := newResource(provisioner.RuntimeArgs{Slots: 1})
	_, err = k.Reconcile(t.Context(), other)
	require.ErrorIs(t, err, provisioner.ErrUnavailable)
	require.ErrorContains(t, err, "the namespace is being deleted")
	drive(t, k.Deprovision, r, provisioner.PhaseAbsent)
	require.Empty(t, w.objects("k8s-a", uuid.Nil))
}

// The API server ends and comes back while resources are made, changed and removed. Meanwhile it is the cluster that is to blame, and
// nothing is taken for gone; afterwards all is as it was wished, and nothing is left over.
func TestServerGoesAway(t *testing.T) {
	t.Parallel()
	c := kubetest.Private(t, kubetest.Options{})
	n := c.Namespace(t)
	d, err := dynamic.NewForConfig(n.Config)
	require.NoError(t, err)
	w := &world{Namespace: n, dynamic: d, paths: written(t, suiteTemplates), more: map[string]any{}, answers: pong{}}
	k := w.open(t, "k8s-a")
	l := listen(t, k)
	const many = 6
	var all sync.WaitGroup
	var end sync.Mutex
	ends := false
	ended := func() bool {
		end.Lock()
		defer end.Unlock()
		return ends
	}
	rs := make([]*provisioner.Resource, many)
	for i := range rs {
		rs[i] = newResource(provisioner.RuntimeArgs{Slots: 1})
		all.Go(func() {
			r := rs[i]
			for round := 0; !ended(); round++ {
				do, want := k.Reconcile, provisioner.PhaseReady
				if round%3 == 2 {
					do, want = k.Hibernate, provisioner.PhaseHibernated
				}
				r.Args = provisioner.Encode(provisioner.RuntimeArgs{Slots: 1 + round%2})
				for !ended() {
					ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
					o, err := do(ctx, r)
					cancel()
					if err != nil && o.Phase != provisioner.PhaseUnknown && o.Phase != provisioner.PhasePending {
						t.Errorf("an error with %+v: %v", o, err)
					}
					if err == nil && o.Phase == want {
						break
					}
					<-time.After(10 * time.Millisecond)
				}
			}
		})
	}
	up := func() {
		until(t, "it is at work", func() (bool, string) {
			ready := 0
			for _, r := range rs {
				ready += min(l.times(r.ID), 1)
			}
			return ready == many, ""
		})
	}
	up()
	for _, outage := range []struct{ begin, end func(testing.TB) }{{c.Stop, c.Start}, {c.Kill, c.Start}, {c.Hang, c.Resume}} {
		outage.begin(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := k.Check(ctx)
		cancel()
		require.Error(t, err)
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		o, err := k.Deprovision(ctx, &provisioner.Resource{ID: uuid.New(), Type: provisioner.Runtime})
		cancel()
		require.Error(t, err)
		require.Equal(t, provisioner.PhaseUnknown, o.Phase)
		outage.end(t)
		until(t, "it answers again", func() (bool, string) {
			_, err := k.Check(t.Context())
			return err == nil, ""
		})
	}
	end.Lock()
	ends = true
	end.Unlock()
	all.Wait()
	l.current(k)
	for _, r := range rs {
		drive(t, k.Reconcile, r, provisioner.PhaseReady)
		drive(t, k.Deprovision, r, provisioner.PhaseAbsent)
	}
	until(t, "nothing is left", func() (bool, string) { return len(w.objects("k8s-a", uuid.Nil)) == 0, "" })
}
