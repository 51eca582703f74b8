package kubernetes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/flowcontrol"

	"berth/internal/defaults"
)

// A cluster is reached through its API server. Nothing is connected to before it is first asked. Safe for concurrent use.
type cluster struct {
	spec  *Spec
	via   func(http.RoundTripper) http.RoundTripper // nil: straight
	limit flowcontrol.RateLimiter

	mu     sync.Mutex
	conn   *connection
	served map[schema.GroupVersionKind]schema.GroupVersionResource // kinds that had to be asked for
}

// A connection is what came of the credentials as they stood on disk at one time.
type connection struct {
	digest  string // of the kubeconfig
	known   bool   // there are credentials in it
	http    *http.Client
	dynamic dynamic.Interface
	streams *http.Client // of what ends when whoever asked ends it
	watches dynamic.Interface
	rest    rest.Interface
}

func newCluster(s *Spec, via func(http.RoundTripper) http.RoundTripper) *cluster {
	return &cluster{
		spec: s, via: via, limit: flowcontrol.NewTokenBucketRateLimiter(float32(s.qps), s.burst),
		served: map[schema.GroupVersionKind]schema.GroupVersionResource{},
	}
}

// connect returns the connection, made anew if another one than old is wanted and the credentials have changed.
func (c *cluster) connect(old *connection) (*connection, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil && c.conn != old {
		return c.conn, nil
	}
	digest := fileDigest(c.spec.kubeconfig)
	if old != nil && old.digest == digest {
		return old, nil
	}
	fresh, err := c.open(digest)
	if err == nil && old != nil && old.known && !fresh.known {
		fresh.close()
		err = fmt.Errorf("%q has none any more: the earlier ones are used", c.spec.kubeconfig) // perhaps it is half written
	}
	if err != nil {
		return nil, unavailable("read the credentials of the cluster", err)
	}
	c.conn.close()
	c.conn = fresh
	return fresh, nil
}

// open reads the credentials. A token in a file beside them is read again by client-go, as is that of a service account.
func (c *cluster) open(digest string) (*connection, error) {
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	config.RateLimiter, config.UserAgent, config.Timeout = c.limit, Manager, defaults.KubernetesTimeout
	config.WarningHandler = rest.NoWarnings{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		if c.via != nil {
			next = c.via(next)
		}
		return impatient{next}
	})
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	d, err := dynamic.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	endless := rest.CopyConfig(config)
	endless.Timeout = 0
	streams, err := rest.HTTPClientFor(endless)
	if err != nil {
		return nil, err
	}
	w, err := dynamic.NewForConfigAndClient(endless, streams)
	if err != nil {
		return nil, err
	}
	plain := rest.CopyConfig(config)
	plain.NegotiatedSerializer = jsonOnly
	r, err := rest.UnversionedRESTClientForConfigAndClient(plain, client)
	if err != nil {
		return nil, err
	}
	return &connection{digest: digest, known: hasCredentials(config), http: client, dynamic: d, streams: streams, watches: w, rest: r}, nil
}

// hasCredentials: whoever has none is anonymous, which a proxy may be that has them itself.
func hasCredentials(c *rest.Config) bool {
	return c.BearerToken != "" || c.BearerTokenFile != "" || c.Username != "" || c.CertFile != "" || len(c.CertData) > 0 || c.ExecProvider != nil || c.AuthProvider != nil
}

func (c *cluster) config() (*rest.Config, error) {
	if c.spec.kubeconfig == "" {
		return rest.InClusterConfig()
	}
	if _, err := clientcmd.LoadFromFile(c.spec.kubeconfig); err != nil {
		var unread *fs.PathError
		if errors.As(err, &unread) {
			return nil, err
		}
		return nil, fmt.Errorf("%q is not a kubeconfig file", c.spec.kubeconfig) // what the parser says may quote a credential
	}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: c.spec.kubeconfig}, &clientcmd.ConfigOverrides{CurrentContext: c.spec.context},
	).ClientConfig()
}

func fileDigest(path string) string {
	raw, _ := os.ReadFile(path) //nolint:gosec // the operator names it; that it can not be read is told by who needs it
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// close ends the connections that nothing uses.
func (c *cluster) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn.close()
	c.conn = nil
}

func (c *connection) close() {
	if c != nil {
		utilnet.CloseIdleConnectionsFor(c.http.Transport)
		utilnet.CloseIdleConnectionsFor(c.streams.Transport)
	}
}

// impatient hides how long an overloaded server asks to wait: client-go would sleep for it inside a call, and when a call is made
// again is for the caller to say.
type impatient struct{ next http.RoundTripper }

func (i impatient) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := i.next.RoundTrip(r)
	if answer != nil {
		answer.Header.Del("Retry-After")
	}
	return answer, err
}

// WrappedRoundTripper lets idle connections be closed.
func (i impatient) WrappedRoundTripper() http.RoundTripper { return i.next }

// ask makes one request, and once more where credentials may have been replaced on disk meanwhile.
func ask[T any](ctx context.Context, c *cluster, what string, do func(*connection) (T, error)) (T, error) {
	var none T
	conn, err := c.connect(nil)
	if err != nil {
		return none, err
	}
	v, err := do(conn)
	if err != nil && stale(err) && ctx.Err() == nil {
		again, unread := c.connect(conn)
		switch {
		case unread != nil:
			return none, unavailable(what, fmt.Errorf("%w; %w", err, unread))
		case again != conn:
			v, err = do(again)
		}
	}
	if err != nil {
		return none, classed(ctx, what, err)
	}
	return v, nil
}

const pageSize = 500

// list returns all objects of a kind that a selector of labels selects, as they are now.
func (c *cluster) list(ctx context.Context, kind schema.GroupVersionKind, selector string) ([]unstructured.Unstructured, error) {
	in, err := c.resource(ctx, kind)
	if err != nil {
		return nil, err
	}
	return c.listOf(ctx, in, kind.Kind, metav1.ListOptions{LabelSelector: selector})
}

func (c *cluster) listOf(ctx context.Context, in schema.GroupVersionResource, kind string, o metav1.ListOptions) ([]unstructured.Unstructured, error) {
	return c.listIn(ctx, c.spec.namespace, in, kind, o)
}

func (c *cluster) listIn(ctx context.Context, namespace string, in schema.GroupVersionResource, kind string, o metav1.ListOptions) ([]unstructured.Unstructured, error) {
	var all []unstructured.Unstructured
	o.Limit = pageSize
	for {
		page, err := ask(ctx, c, "list "+in.Resource, func(conn *connection) (*unstructured.UnstructuredList, error) {
			return conn.dynamic.Resource(in).Namespace(namespace).List(ctx, o)
		})
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			one := page.Items[i]
			if one.GetKind() == "" { // a list need not say it of each
				one.SetGroupVersionKind(in.GroupVersion().WithKind(kind))
			}
			all = append(all, one)
		}
		if o.Continue = page.GetContinue(); o.Continue == "" {
			return all, nil
		}
	}
}

// page returns a page of a list, as it is asked for.
func (c *cluster) page(ctx context.Context, kind schema.GroupVersionKind, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	in, err := c.resource(ctx, kind)
	if err != nil {
		return nil, err
	}
	return ask(ctx, c, "list "+in.Resource, func(conn *connection) (*unstructured.UnstructuredList, error) {
		return conn.dynamic.Resource(in).Namespace(c.spec.namespace).List(ctx, o)
	})
}

// watch returns what happens to the objects of a kind from now on, until ctx ends.
func (c *cluster) watch(ctx context.Context, kind schema.GroupVersionKind, o metav1.ListOptions) (watch.Interface, error) {
	in, err := c.resource(ctx, kind)
	if err != nil {
		return nil, err
	}
	return ask(ctx, c, "watch "+in.Resource, func(conn *connection) (watch.Interface, error) {
		return conn.watches.Resource(in).Namespace(c.spec.namespace).Watch(ctx, o)
	})
}

// get returns an object by its name; nil if there is none.
func (c *cluster) get(ctx context.Context, kind schema.GroupVersionKind, name string) (*unstructured.Unstructured, error) {
	in, err := c.resource(ctx, kind)
	if err != nil {
		return nil, err
	}
	o, err := ask(ctx, c, "get "+title(kind.Kind, name), func(conn *connection) (*unstructured.Unstructured, error) {
		return conn.dynamic.Resource(in).Namespace(c.spec.namespace).Get(ctx, name, metav1.GetOptions{})
	})
	if isGone(err) {
		return nil, nil //nolint:nilnil // absence, as the comment says
	}
	return o, err
}

// apply applies an object: it becomes the only thing that we say of it. Where it carries a uid and a version, they are conditions.
func (c *cluster) apply(ctx context.Context, o *unstructured.Unstructured, dry bool) (*unstructured.Unstructured, error) {
	return c.applyAs(ctx, Manager, o, dry)
}

// applyAs applies under the name of a field manager.
func (c *cluster) applyAs(ctx context.Context, manager string, o *unstructured.Unstructured, dry bool) (*unstructured.Unstructured, error) {
	options := metav1.PatchOptions{FieldManager: manager, Force: new(true), FieldValidation: metav1.FieldValidationStrict}
	if dry {
		options.DryRun = []string{metav1.DryRunAll}
	}
	raw, err := json.Marshal(o.Object)
	if err != nil {
		return nil, fmt.Errorf("apply %s: %w", titleOf(o), err)
	}
	return c.patch(ctx, o, types.ApplyPatchType, raw, options)
}

// merge changes some fields of an object, under the conditions in the patch.
func (c *cluster) merge(ctx context.Context, o *unstructured.Unstructured, patch map[string]any) (*unstructured.Unstructured, error) {
	raw, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("change %s: %w", titleOf(o), err)
	}
	return c.patch(ctx, o, types.MergePatchType, raw, metav1.PatchOptions{FieldManager: Manager})
}

func (c *cluster) patch(ctx context.Context, o *unstructured.Unstructured, how types.PatchType, raw []byte, options metav1.PatchOptions) (*unstructured.Unstructured, error) {
	in, err := c.resource(ctx, o.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	what := map[types.PatchType]string{types.ApplyPatchType: "apply ", types.MergePatchType: "change "}[how]
	got, err := ask(ctx, c, what+titleOf(o), func(conn *connection) (*unstructured.Unstructured, error) {
		return conn.dynamic.Resource(in).Namespace(c.spec.namespace).Patch(ctx, o.GetName(), how, raw, options)
	})
	if err != nil {
		return nil, discreet(err, o.GetKind())
	}
	return got, nil
}

// remove deletes exactly this object. Gone already, and replaced, is success. strict: at exactly this version, or it is an errMoved.
func (c *cluster) remove(ctx context.Context, o *unstructured.Unstructured, strict bool) error {
	in, err := c.resource(ctx, o.GroupVersionKind())
	if err != nil {
		return err
	}
	uid, version := o.GetUID(), o.GetResourceVersion()
	is := &metav1.Preconditions{UID: &uid}
	if strict {
		is.ResourceVersion = &version
	}
	_, err = ask(ctx, c, "delete "+titleOf(o), func(conn *connection) (struct{}, error) {
		return struct{}{}, conn.dynamic.Resource(in).Namespace(c.spec.namespace).Delete(ctx, o.GetName(), metav1.DeleteOptions{
			Preconditions: is, PropagationPolicy: new(metav1.DeletePropagationBackground),
		})
	})
	switch {
	case isConflict(err) && strict:
		return errMoved
	case isGone(err) || isConflict(err):
		return nil // a live read tells what is there now
	}
	return err
}
