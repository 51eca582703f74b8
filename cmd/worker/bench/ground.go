package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"berth/provisioner"
	"berth/provisioner/kubernetes"
)

const (
	clearBound = 10 * time.Minute      // for a namespace to be gone: thousands of objects take minutes
	clearLook  = 50 * time.Millisecond // how often is looked whether it is
	askBound   = 30 * time.Second      // for a cluster to take the request
)

// A ground is the namespace in which one measurement is made.
type ground struct {
	*Cluster
	set          set
	namespace    string
	made         bool
	installation string // tells what we make from everything else there
}

// ground makes the namespace, or takes the one that was named.
func (c *Cluster) ground(ctx context.Context, s set) (*ground, error) {
	random := strings.ReplaceAll(uuid.NewString(), "-", "")[:8]
	g := &ground{Cluster: c, set: s, namespace: c.options.Namespace, installation: "bench-" + random}
	if g.namespace != "" {
		return g, nil
	}
	g.namespace, g.made = "berth-bench-"+random, true
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: g.namespace}}
	switch _, err := c.core.Namespaces().Create(ctx, object, metav1.CreateOptions{}); {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("--kubeconfig: %q: make namespace %s: %w: give --namespace with one in which you may make objects", c.options.Kubeconfig, g.namespace, err)
	case err != nil:
		return nil, fmt.Errorf("make namespace %s: %w", g.namespace, err)
	}
	// Without it no pod is let in, and what makes pods waits longer and longer before it tries again.
	err := g.until(ctx, askBound, "namespace "+g.namespace+" has its service account", func(ctx context.Context) (bool, error) {
		_, err := c.core.ServiceAccounts(g.namespace).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, except(err, apierrors.IsNotFound)
	})
	if err != nil {
		return nil, errors.Join(err, g.clear(ctx, false))
	}
	return g, nil
}

// clear has what was made removed, whether ctx has ended or not. wait: it returns when that is gone, so that nothing is measured while
// it goes.
func (g *ground) clear(ctx context.Context, wait bool) error {
	asking, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), askBound, fmt.Errorf("no answer in %v", askBound))
	defer cancel()
	if g.made {
		spaces := g.core.Namespaces()
		if err := spaces.Delete(asking, g.namespace, metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("delete namespace %s: %w: delete it with kubectl delete namespace %s", g.namespace, err, g.namespace)
		}
		if !wait {
			return nil
		}
		return g.until(ctx, clearBound, "namespace "+g.namespace+" is gone", func(ctx context.Context) (bool, error) {
			_, err := spaces.Get(ctx, g.namespace, metav1.GetOptions{})
			return apierrors.IsNotFound(err), except(err, apierrors.IsNotFound)
		})
	}
	ours := metav1.ListOptions{LabelSelector: kubernetes.LabelInstallation + "=" + g.installation}
	all := func(kind schema.GroupVersionKind) (dynamic.ResourceInterface, string) {
		in, _ := meta.UnsafeGuessKindToResource(kind)
		return g.dynamic.Resource(in).Namespace(g.namespace), in.Resource
	}
	background := metav1.DeletePropagationBackground
	for _, kind := range g.set.kinds {
		objects, name := all(kind)
		if err := objects.DeleteCollection(asking, metav1.DeleteOptions{PropagationPolicy: &background}, ours); err != nil {
			return fmt.Errorf("remove what was made in namespace %s: %s with label %s: %w", g.namespace, name, ours.LabelSelector, err)
		}
	}
	if !wait {
		return nil
	}
	for _, kind := range g.set.kinds { // after all were asked for: a disk waits for the pods that have it
		objects, name := all(kind)
		err := g.until(ctx, clearBound, name+" are gone", func(ctx context.Context) (bool, error) {
			list, err := objects.List(ctx, ours)
			return err == nil && len(list.Items) == 0, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// until looks until something is so.
func (g *ground) until(ctx context.Context, most time.Duration, what string, so func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("not so after %v", most))
	defer cancel()
	tick := time.NewTicker(clearLook)
	defer tick.Stop()
	for {
		ok, err := so(ctx)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("wait until %s: %w", what, context.Cause(ctx))
		case err != nil:
			return fmt.Errorf("wait until %s: %w", what, err)
		case ok:
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// except is an error, unless it is of this sort.
func except(err error, is func(error) bool) error {
	if err != nil && is(err) {
		return nil
	}
	return err
}

// provisioner makes the one that is measured, as a worker does. All that it asks of the cluster is counted.
func (g *ground) provisioner(r *requests) (provisioner.Provisioner, error) {
	installation := func(context.Context) (string, error) { return g.installation, nil }
	return kubernetes.Through(installation, r.through)(poolName, g.spec(g.set, g.namespace), provisioner.Options{})
}

// rig is a database with that provisioner.
func (g *ground) rig(ctx context.Context, url string, r *requests) (*rig, error) {
	return openRig(ctx, url, kubernetes.Type, func(*pgxpool.Pool) (provisioner.Provisioner, error) { return g.provisioner(r) })
}

// requests counts what is asked of a cluster.
type requests struct{ plain, watches atomic.Int64 }

func (r *requests) through(next http.RoundTripper) http.RoundTripper { return &counting{next, r} }

type counting struct {
	next http.RoundTripper
	of   *requests
}

// RoundTrip counts a request and sends it.
func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("watch") != "" {
		c.of.watches.Add(1)
	} else {
		c.of.plain.Add(1)
	}
	return c.next.RoundTrip(r)
}

// WrappedRoundTripper lets connections be closed.
func (c *counting) WrappedRoundTripper() http.RoundTripper { return c.next }
