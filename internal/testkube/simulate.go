package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	corev1 "k8s.io/api/core/v1"
)

// Annotations by which a test decides what the simulation does with an object. Package kubetest has the same names.
const (
	failAnnotation    = "testkube.test/fail"    // of a pod: with which reason; of a claim: the message with which it is not made, or does not grow
	messageAnnotation = "testkube.test/message" // of a pod: the message beside the reason
	keepAnnotation    = "testkube.test/keep"    // of a pod: once deleted it does not end
)

// missingImages is what the images begin with that can not be pulled, whatever the annotations say.
const missingImages = "missing.test/"

// workers is how many objects of a kind are worked on at once.
const workers = 8

// simulate starts nodes, pods and volumes, and returns once it sees what is there.
func simulate(ctx context.Context, client kubernetes.Interface, o options) error {
	if err := makeClasses(ctx, client); err != nil {
		return fmt.Errorf("make storage classes: %w", err)
	}
	for i := range o.nodes {
		n := newNode(i, o)
		go n.run(ctx, client)
	}
	events := record.NewBroadcaster(record.WithContext(ctx))
	events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	recorder := func(component string) record.EventRecorder {
		return events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component})
	}

	f := informers.NewSharedInformerFactory(client, 0)
	pods, claims, volumes := f.Core().V1().Pods(), f.Core().V1().PersistentVolumeClaims(), f.Core().V1().PersistentVolumes()
	k := &kubelet{client: client, pods: pods.Lister(), events: recorder("kubelet")}
	d := &driver{
		client: client, events: recorder(driverName),
		claims: claims.Lister(), volumes: volumes.Lister(), classes: f.Storage().V1().StorageClasses().Lister(),
	}
	var loops []*loop
	for _, l := range []struct {
		name     string
		informer cache.SharedIndexInformer
		sync     func(context.Context, cache.ObjectName) error
	}{
		{"pod", pods.Informer(), k.sync},
		{"claim", claims.Informer(), d.syncClaim},
		{"volume", volumes.Informer(), d.syncVolume},
	} {
		made, err := newLoop(l.name, l.informer, l.sync)
		if err != nil {
			return err
		}
		loops = append(loops, made)
	}
	f.Start(ctx.Done())
	for kind, ok := range f.WaitForCacheSync(ctx.Done()) {
		if !ok {
			return errors.Join(fmt.Errorf("%v could not be listed", kind), context.Cause(ctx))
		}
	}
	if err := k.countAddresses(); err != nil {
		return err
	}
	for _, l := range loops {
		l.run(ctx)
	}
	return nil
}

// loop calls sync for each object that changed, one call at a time for an object, and again, later and later, after an error.
type loop struct {
	name  string
	queue workqueue.TypedRateLimitingInterface[cache.ObjectName]
	sync  func(context.Context, cache.ObjectName) error
}

func newLoop(name string, informer cache.SharedIndexInformer, sync func(context.Context, cache.ObjectName) error) (*loop, error) {
	l := &loop{name: name, sync: sync, queue: workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](10*time.Millisecond, 5*time.Second))}
	add := func(o any) {
		if name, err := cache.DeletionHandlingObjectToName(o); err == nil {
			l.queue.Add(name)
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, o any) { add(o) }, DeleteFunc: add})
	return l, err
}

func (l *loop) run(ctx context.Context) {
	context.AfterFunc(ctx, l.queue.ShutDown)
	for range workers {
		go func() {
			for {
				name, shutdown := l.queue.Get()
				if shutdown {
					return
				}
				l.one(ctx, name)
			}
		}()
	}
}

func (l *loop) one(ctx context.Context, name cache.ObjectName) {
	defer l.queue.Done(name)
	err := l.sync(ctx, name)
	switch {
	case err == nil, apierrors.IsNotFound(err): // gone meanwhile
		l.queue.Forget(name)
		return
	case apierrors.IsConflict(err), ctx.Err() != nil: // what was seen is old: there will be something newer
	default:
		slog.Warn("an object could not be brought further", "kind", l.name, "object", name.String(), "error", err)
	}
	l.queue.AddRateLimited(name)
}

// keepTrying calls something until it works, at the start, when not everything is there yet.
func keepTrying(ctx context.Context, try func() error) error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		err := try()
		if err == nil || apierrors.IsAlreadyExists(err) {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		case <-tick.C:
		}
	}
}
