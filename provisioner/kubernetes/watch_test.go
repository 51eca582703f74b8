package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/provisioner"
)

// A wire is what all requests of a provisioner go through.
type wire struct {
	next    http.RoundTripper
	watches atomic.Int64
	cut     atomic.Bool // nothing comes through
	deaf    atomic.Bool // what watches answer from now on does not arrive
	answer  atomic.Pointer[func(*http.Request) *http.Response]
	mu      sync.Mutex
	bodies  []io.Closer
	asked   []string // requests that are no watch
}

func (w *world) wired() *wire {
	one := &wire{}
	w.via = func(next http.RoundTripper) http.RoundTripper {
		one.next = next
		return one
	}
	return one
}

var errCut = errors.New("cut")

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	watches := r.URL.Query().Get("watch") != ""
	if watches {
		w.watches.Add(1)
	} else {
		w.mu.Lock()
		w.asked = append(w.asked, r.Method+" "+path.Base(r.URL.Path))
		w.mu.Unlock()
	}
	if w.cut.Load() {
		return nil, errCut
	}
	if f := w.answer.Load(); f != nil {
		if answer := (*f)(r); answer != nil {
			return answer, nil
		}
	}
	answer, err := w.next.RoundTrip(r)
	if err != nil || !watches {
		return answer, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bodies = append(w.bodies, answer.Body)
	answer.Body = &deafened{answer.Body, w, r.Context()}
	return answer, nil
}

// WrappedRoundTripper lets connections be closed.
func (w *wire) WrappedRoundTripper() http.RoundTripper { return w.next }

// requests are those since it was called last that are no watch.
func (w *wire) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	asked := w.asked
	w.asked = nil
	return asked
}

// closeAll ends all watches.
func (w *wire) closeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.bodies {
		_ = b.Close()
	}
	w.bodies = nil
}

type deafened struct {
	io.ReadCloser
	wire *wire
	ctx  context.Context //nolint:containedctx // of the one request
}

func (d *deafened) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	if d.wire.deaf.Load() && n > 0 {
		<-d.ctx.Done() // neither ended nor cut
		return 0, d.ctx.Err()
	}
	return n, err
}

// A listener hears what a watch says.
type listener struct {
	t    *testing.T
	mu   sync.Mutex
	told map[uuid.UUID]int
}

// listen has a provisioner watch, and returns when it holds all.
func listen(t *testing.T, k *Kubernetes) *listener {
	t.Helper()
	l := &listener{t: t, told: map[uuid.UUID]int{}}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- k.Watch(ctx, func(id uuid.UUID) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.told[id]++
		})
	}()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	l.current(k)
	return l
}

// current waits until all is held.
func (l *listener) current(k *Kubernetes) {
	l.t.Helper()
	until(l.t, "all is watched", func() (bool, string) {
		k.cache.mu.Lock()
		defer k.cache.mu.Unlock()
		return k.cache.isCurrent(), ""
	})
}

// times is how often somebody was to look at a resource.
func (l *listener) times(id uuid.UUID) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.told[id]
}

// news waits for the next word of a resource after there were so many.
func (l *listener) news(id uuid.UUID, after int) {
	l.t.Helper()
	until(l.t, "it is told", func() (bool, string) { return l.times(id) > after, "" })
}

// driven calls only when there is news, until the phase is there.
func (l *listener) driven(do method, r *provisioner.Resource, want provisioner.Phase) (o provisioner.Observation) {
	l.t.Helper()
	for {
		was, state := l.times(r.ID), string(r.State)
		var err error
		o, err = do(l.t.Context(), r)
		require.NoError(l.t, err)
		switch {
		case o.Phase == want:
			return o
		case string(r.State) == state || o.Reason != "": // else it wants to be called again at once
			l.news(r.ID, was)
		}
	}
}

// A resource is made, edited, deleted by hand, hibernated, woken and removed, and each time somebody is told when to look: nobody has to
// ask again and again. Of what is in order nothing is asked.
func TestWatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, written(t, unmounted(t)))
	wire := w.wired()
	k := w.open(t, "k8s-a")
	l := listen(t, k)
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	name := "runtime-" + r.ProvisionID()
	wire.requests()
	l.driven(k.Reconcile, r, provisioner.PhaseReady)
	require.Equal(t, []string{"PATCH " + anchorName(r.ProvisionID()), "PATCH " + name, "PATCH " + name, "PATCH " + name, "PATCH " + name}, wire.requests(),
		"four objects are made, the disk is let go, and nothing is asked")

	for range 3 {
		drive(t, k.Reconcile, r, provisioner.PhaseReady)
		require.Equal(t, provisioner.PhaseReady, observed1(t, k, r).Phase)
	}
	require.Empty(t, wire.requests())
	require.EqualValues(t, 1e9, config(t, r).StorageBytes)

	told := l.times(r.ID)
	_, err := w.Client.AppsV1().Deployments(w.Name).Patch(t.Context(), name, "application/strategic-merge-patch+json",
		[]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"runtime","image":"another"}]}}}}`), metav1.PatchOptions{FieldManager: "hand"})
	require.NoError(t, err)
	l.news(r.ID, told)
	require.Equal(t, []string{"Deployment " + name + ": spec.template.spec.containers[name=runtime].image"}, observed1(t, k, r).Drift)
	l.driven(k.Reconcile, r, provisioner.PhaseReady)
	require.Empty(t, observed1(t, k, r).Drift)

	told = l.times(r.ID)
	require.NoError(t, w.Client.AppsV1().Deployments(w.Name).Delete(t.Context(), name, metav1.DeleteOptions{}))
	l.news(r.ID, told)
	require.Equal(t, []string{"Deployment " + name}, observed1(t, k, r).Drift)
	l.driven(k.Reconcile, r, provisioner.PhaseReady)

	l.driven(k.Hibernate, r, provisioner.PhaseHibernated)
	wire.requests()
	require.Equal(t, provisioner.PhaseHibernated, observed1(t, k, r).Phase)
	require.Empty(t, wire.requests())
	l.driven(k.Reconcile, r, provisioner.PhaseReady)
	l.driven(k.Deprovision, r, provisioner.PhaseAbsent)
	require.Empty(t, w.objects("k8s-a", uuid.Nil))
}

// Somebody is told the causes, too, and of room that there is again.
func TestWatchOfCauses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, written(t, unmounted(t)))
	w.quota(t, "small", "pods", "0")
	k := w.open(t, "k8s-a")
	l := listen(t, k)
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	var o provisioner.Observation
	var err error
	for o.Reason != reasonQuota {
		was := l.times(r.ID)
		o, err = k.Reconcile(t.Context(), r)
		if o.Reason != reasonQuota {
			l.news(r.ID, was)
		}
	}
	require.ErrorIs(t, err, provisioner.ErrNoCapacity)
	was := l.times(r.ID)
	_, err = w.Client.CoreV1().ResourceQuotas(w.Name).Patch(t.Context(), "small", "application/merge-patch+json", []byte(`{"spec":{"hard":{"pods":"9"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	l.news(r.ID, was)
	for o.Phase != provisioner.PhaseReady {
		was := l.times(r.ID)
		o, err = k.Reconcile(t.Context(), r)
		if o.Phase != provisioner.PhaseReady {
			l.news(r.ID, was)
		}
	}
	require.NoError(t, err)
}

// A watch on which nothing arrives any more, although nobody ended it, is made anew, and what was missed is told. Until then nothing is
// held to be in order because of it.
func TestWatchGoesSilent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, written(t, unmounted(t)))
	wire := w.wired()
	k := w.open(t, "k8s-a")
	k.silence = time.Second
	l := listen(t, k)
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	l.driven(k.Reconcile, r, provisioner.PhaseReady)
	wire.deaf.Store(true)
	told := l.times(r.ID)
	require.NoError(t, w.Client.AppsV1().Deployments(w.Name).Delete(t.Context(), "runtime-"+r.ProvisionID(), metav1.DeleteOptions{}))
	until(t, "it is not relied on", func() (bool, string) {
		return observed1(t, k, r).Phase != provisioner.PhaseReady, ""
	})
	wire.deaf.Store(false)
	l.news(r.ID, told)
	drive(t, k.Reconcile, r, provisioner.PhaseReady)
}

// A version that is too old has everything listed anew. What went meanwhile is told, once all connections were cut, too.
func TestWatchIsCut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, written(t, unmounted(t)))
	wire := w.wired()
	k := w.open(t, "k8s-a")
	l := listen(t, k)
	var rs []*provisioner.Resource
	told := map[uuid.UUID]int{}
	for range 3 {
		r := newResource(provisioner.RuntimeArgs{Slots: 1})
		l.driven(k.Reconcile, r, provisioner.PhaseReady)
		rs = append(rs, r)
	}
	for _, expired := range []bool{false, true} {
		for _, r := range rs {
			told[r.ID] = l.times(r.ID)
		}
		wire.cut.Store(true)
		wire.closeAll()
		for _, r := range rs {
			require.NoError(t, w.Client.AppsV1().Deployments(w.Name).Delete(t.Context(), "runtime-"+r.ProvisionID(), metav1.DeleteOptions{}))
		}
		if expired {
			var once sync.Map
			answer := func(r *http.Request) *http.Response {
				if _, before := once.LoadOrStore(r.URL.Path, true); before || r.URL.Query().Get("watch") == "" {
					return nil
				}
				return streamed(r, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","code":410,"reason":"Expired","message":"too old resource version: 1 (2)"}}`)
			}
			wire.answer.Store(&answer)
		}
		wire.cut.Store(false)
		for _, r := range rs {
			l.news(r.ID, told[r.ID])
			for len(w.uids("k8s-a", r.ID, "Deployment")) == 0 {
				was := l.times(r.ID)
				if _, err := k.Reconcile(t.Context(), r); len(w.uids("k8s-a", r.ID, "Deployment")) == 0 {
					t.Logf("told, and not made anew: %v", err)
					l.news(r.ID, was)
				}
			}
			drive(t, k.Reconcile, r, provisioner.PhaseReady)
		}
		wire.answer.Store(nil)
	}
}

// Watches that end at once, and listings that fail in the middle, are tried again with pauses, and nothing is concluded from them.
func TestWatchThatEndsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, written(t, unmounted(t)))
	wire := w.wired()
	k := w.open(t, "k8s-a")
	l := listen(t, k)
	r := newResource(provisioner.RuntimeArgs{Slots: 1})
	l.driven(k.Reconcile, r, provisioner.PhaseReady)
	quiet(t, w, k, r)
	var first, last atomic.Int64
	answer := func(r *http.Request) *http.Response {
		if r.URL.Query().Get("watch") == "" {
			return nil
		}
		now := time.Now().UnixNano()
		first.CompareAndSwap(0, now)
		last.Store(now)
		return streamed(r, "")
	}
	wire.answer.Store(&answer)
	before, told := wire.watches.Load(), l.times(r.ID)
	wire.closeAll()
	until(t, "they are tried again and again", func() (bool, string) { return wire.watches.Load()-before > 30, "" })
	kinds := len(k.coreKinds()) + 3
	pauses := time.Duration(last.Load() - first.Load())
	require.Greater(t, pauses, time.Duration(30/kinds-1)*100*time.Millisecond, "with pauses")
	require.Equal(t, told, l.times(r.ID), "nothing is concluded from it")
	wire.answer.Store(nil)
	require.NoError(t, w.Client.AppsV1().Deployments(w.Name).Delete(t.Context(), "runtime-"+r.ProvisionID(), metav1.DeleteOptions{}))
	l.news(r.ID, told)
}

// streamed is what a watch answers.
func streamed(r *http.Request, text string) *http.Response {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(bytes.NewReader([]byte(strings.TrimSpace(text)))),
	}
}
