package kubernetes

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
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

// picky lets some requests through, and loses the others.
type picky struct {
	next http.RoundTripper
	may  func(*http.Request) bool
}

func (f picky) RoundTrip(r *http.Request) (*http.Response, error) {
	if f.may(r) {
		return f.next.RoundTrip(r)
	}
	return nil, errNoRoute
}

func (f picky) WrappedRoundTripper() http.RoundTripper { return f.next }

// A change that takes two requests, of which only the first arrives, is not held to be made.
func TestHalfAChange(t *testing.T) {
	t.Parallel()
	all := maps.Clone(suiteTemplates)
	all["deployment"] = strings.ReplaceAll(all["deployment"], "strategy: {type: Recreate}", "replicas: 1")
	w := newWorld(t, written(t, all))
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	drive(t, w.open(t, "k8s-a").Reconcile, r, provisioner.PhaseReady)
	w.paths = written(t, suiteTemplates)
	r.Args = provisioner.Encode(provisioner.RuntimeArgs{Slots: 2})
	sent := 0
	w.via = func(next http.RoundTripper) http.RoundTripper {
		return picky{next, func(r *http.Request) bool {
			if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/deployments/") && !strings.Contains(r.URL.RawQuery, "dryRun") {
				sent++
				return sent == 1
			}
			return true
		}}
	}
	k := w.open(t, "k8s-a")
	for sent < 2 {
		_, err := k.Reconcile(t.Context(), r)
		require.True(t, err == nil || errors.Is(err, provisioner.ErrUnavailable), "%v", err)
	}
	w.via = nil
	drive(t, w.open(t, "k8s-a").Reconcile, r, provisioner.PhaseReady)
	d, err := w.Client.AppsV1().Deployments(w.Name).Get(t.Context(), "runtime-"+r.ProvisionID(), metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, appsv1.RecreateDeploymentStrategyType, d.Spec.Strategy.Type)
	require.Equal(t, "2", d.Spec.Template.Spec.Containers[0].Resources.Requests.Cpu().String())
}

// A runtime that does not answer as it should is made and not ready, whatever its pods say.
func TestPingFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, written(t, unmounted(t)))
	var status atomic.Int64
	w.answers = answering{&status}
	k := w.open(t, "k8s-a")
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	for _, code := range []int64{0, http.StatusNotFound, http.StatusInternalServerError} {
		status.Store(code)
		o, err := driveToReason(t, k.Reconcile, r, reasonPing)
		require.NoError(t, err)
		require.Equal(t, provisioner.PhasePending, o.Phase)
		require.Contains(t, o.Message, "http://node-"+r.ProvisionID()+".localhost")
	}
	status.Store(http.StatusOK)
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
}

// answering answers pings with a status; with 0 not at all.
type answering struct{ status *atomic.Int64 }

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	code := int(a.status.Load())
	if code == 0 {
		return nil, errNoRoute
	}
	return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader("")), Request: r}, nil
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
