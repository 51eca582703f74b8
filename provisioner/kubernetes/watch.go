package kubernetes

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubewait "k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	kubecache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"berth/internal/defaults"
)

// Watch watches every kind of object that the resources consist of, their pods, and what is said of them, until ctx ends. What is
// watched is what [Kubernetes.Observe] and [Kubernetes.Reconcile] find in order without asking the cluster.
func (k *Kubernetes) Watch(ctx context.Context, changed func(uuid.UUID)) error {
	if err := k.installed(ctx); err != nil {
		return err
	}
	core := k.coreKinds()
	k.cache.begin(core, []schema.GroupVersionKind{kindPod, kindEvent, kindQuota}, k.silence, changed)
	defer k.cache.end()
	var all sync.WaitGroup
	defer all.Wait()
	for _, kind := range union(core, kindPod) {
		all.Go(func() { k.watchKind(ctx, kind, k.mark(), "") })
	}
	all.Go(func() { k.watchKind(ctx, kindEvent, "", "type=Warning") })
	all.Go(func() { k.watchKind(ctx, kindQuota, "", "") })
	again := time.NewTicker(defaults.KubernetesSecondLook / 2)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
			k.cache.lookAgain()
		}
	}
}

// coreKinds are those by which a resource stands.
func (k *Kubernetes) coreKinds() []schema.GroupVersionKind {
	return union(k.kinds, kindConfigMap, kindVolume)
}

func (c *cache) begin(core, others []schema.GroupVersionKind, silence time.Duration, changed func(uuid.UUID)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kinds, c.silence, c.changed = map[schema.GroupKind]*watchedKind{}, silence, changed
	for _, kind := range others {
		c.kinds[kind.GroupKind()] = &watchedKind{}
	}
	for _, kind := range core {
		c.kinds[kind.GroupKind()] = &watchedKind{core: true}
	}
}

// end forgets everything.
func (c *cache) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kinds = nil
	clear(c.things)
	clear(c.owners)
	clear(c.events)
	clear(c.full)
	clear(c.quotas)
	clear(c.edited)
	clear(c.later)
}

// watchKind watches one kind until ctx ends. A watch that is silent for long is made anew: a cluster says something each minute, but for
// events, whose watch is made anew where nothing happens.
func (k *Kubernetes) watchKind(ctx context.Context, kind schema.GroupVersionKind, labels, fields string) {
	for ctx.Err() == nil {
		heard := make(chan struct{}, 1)
		s := &store{k: k, kind: kind, heard: heard}
		quiet := logr.Discard()
		r := kubecache.NewReflectorWithOptions(k.source(kind, labels, fields), nil, s, kubecache.ReflectorOptions{
			Name: kind.Kind, Logger: &quiet, Backoff: &kubewait.Backoff{
				Duration: defaults.KubernetesRetry, Factor: 2, Jitter: 0.5, Steps: 10, Cap: defaults.KubernetesRetryMax,
			},
		})
		running, stop := context.WithCancel(klog.NewContext(ctx, quiet))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer func() { // of one object that nobody thought of: who relies on nothing can still ask
				if p := recover(); p != nil {
					k.cache.fail(kind.GroupKind(), fmt.Errorf("panic: %v", p))
					pause(running, defaults.KubernetesRetryMax)
				}
			}()
			r.RunWithContext(running)
		}()
		silence := time.NewTimer(k.silence)
		for speaks := true; speaks; {
			select {
			case <-heard:
				silence.Reset(k.silence)
			case <-silence.C:
				speaks = false
			case <-ended:
				speaks = false
			}
		}
		silence.Stop()
		stop()
		<-ended
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// source lists and watches a kind.
func (k *Kubernetes) source(kind schema.GroupVersionKind, labels, fields string) kubecache.ListerWatcher {
	// It is watched again once all of it was taken in, or a watch goes on from where another ended.
	noted := func(err error, watched bool) error {
		if err != nil || watched {
			k.cache.fail(kind.GroupKind(), err)
		}
		return err
	}
	return &kubecache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector, o.FieldSelector = labels, fields
			list, err := k.cluster.page(ctx, kind, o)
			return list, noted(err, false)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector, o.FieldSelector = labels, fields
			w, err := k.cluster.watch(ctx, kind, o)
			return w, noted(err, o.SendInitialEvents == nil)
		},
	}
}

// fail notes why a kind is not watched; nil if it is.
func (c *cache) fail(kind schema.GroupKind, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.kinds[kind]; k != nil {
		k.err = err
	}
}

// A store takes in what a reflector hears of one kind.
type store struct {
	k     *Kubernetes
	kind  schema.GroupVersionKind
	heard chan<- struct{}
}

var (
	_ kubecache.TransformingStore      = (*store)(nil)
	_ kubecache.ReflectorBookmarkStore = (*store)(nil)
)

// kept is a thing on its way, under the name that a reflector wants.
type kept struct {
	metav1.ObjectMeta
	thing *thing
	whole *unstructured.Unstructured // of kinds that are not kept
}

// keep makes little of an object as soon as it is heard of.
func (s *store) keep(v any) *kept {
	switch v := v.(type) {
	case *kept:
		return v
	case *unstructured.Unstructured:
		one := &kept{ObjectMeta: metav1.ObjectMeta{Name: v.GetName(), Namespace: v.GetNamespace()}}
		if v.GetKind() == "" {
			v.SetGroupVersionKind(s.kind)
		}
		switch s.kind {
		case kindEvent, kindQuota:
			one.whole = v
		default:
			one.thing, _ = s.k.thingOf(v)
		}
		return one
	}
	return &kept{}
}

// Transformer has a listing kept in little too.
func (s *store) Transformer() kubecache.TransformFunc {
	return func(v any) (any, error) { return s.keep(v), nil }
}

// locked has the cache take something in.
func (s *store) locked(f func(*cache)) error {
	select {
	case s.heard <- struct{}{}:
	default:
	}
	c := s.k.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.kinds[s.kind.GroupKind()]; k != nil {
		k.heard = time.Now()
		f(c)
	}
	return nil
}

// Add takes in an object.
func (s *store) Add(v any) error { return s.Update(v) }

// Update takes in an object as it is now.
func (s *store) Update(v any) error {
	one := s.keep(v)
	return s.locked(func(c *cache) {
		switch {
		case one.thing != nil:
			c.put(one.thing)
		case one.whole == nil:
		case s.kind == kindEvent:
			c.event(one.whole)
		default:
			c.quota(one.whole, false)
		}
	})
}

// Delete takes in that an object is gone.
func (s *store) Delete(v any) error {
	one := s.keep(v)
	return s.locked(func(c *cache) {
		switch {
		case one.thing != nil:
			c.drop(one.thing)
		case one.whole != nil && s.kind == kindQuota:
			c.quota(one.whole, true)
		}
	})
}

// Replace takes in all that there is.
func (s *store) Replace(all []any, _ string) error {
	var things []*thing
	var whole []*unstructured.Unstructured
	for _, v := range all {
		one := s.keep(v)
		if one.thing != nil {
			things = append(things, one.thing)
		}
		if one.whole != nil {
			whole = append(whole, one.whole)
		}
	}
	return s.locked(func(c *cache) {
		c.kinds[s.kind.GroupKind()].err = nil
		switch s.kind {
		case kindEvent: // of the past: what it tells is asked for where it matters
		case kindQuota:
			c.allQuotas(whole)
		default:
			c.replace(s.kind.GroupKind(), things)
		}
	})
}

// Bookmark is what a cluster says when nothing happens.
func (s *store) Bookmark(string) error { return s.locked(func(*cache) {}) }

// Resync has nothing to do.
func (s *store) Resync() error { return nil }
