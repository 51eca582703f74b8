package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"berth/provisioner"
	"berth/provisioner/kubernetes/kubetest"
)

const testInstallation = "installation"

func installedAs(id string) Installation {
	return func(context.Context) (string, error) { return id, nil }
}

// A world is a namespace, and a client of its own to look at it.
type world struct {
	*kubetest.Namespace
	dynamic dynamic.Interface
	paths   map[string]string
	more    map[string]any // of the spec
	via     func(http.RoundTripper) http.RoundTripper
	answers http.RoundTripper // pings
}

// pong answers every ping.
type pong struct{}

func (pong) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("")), Request: r}, nil
}

func newWorld(t *testing.T, paths map[string]string) *world {
	t.Helper()
	n := kubetest.New(t)
	d, err := dynamic.NewForConfig(n.Config)
	require.NoError(t, err)
	return &world{Namespace: n, dynamic: d, paths: paths, more: map[string]any{}, answers: pong{}}
}

// open makes a provisioner as a new process would.
func (w *world) open(t *testing.T, name string) *Kubernetes {
	t.Helper()
	spec := map[string]any{"namespace": w.Name, "kubeconfig_path": w.Cluster.Kubeconfig, "qps": 10_000, "burst": 10_000, "slot": map[string]any{"cpu": 1, "memory_gb": 1, "storage_gb": 1}}
	for key, v := range w.more {
		spec[key] = v
	}
	p, err := factory(installedAs(testInstallation), w.via, w.answers)(name, rawSpec(t, w.paths, spec), provisioner.Options{})
	require.NoError(t, err)
	k, ok := p.(*Kubernetes)
	require.True(t, ok)
	t.Cleanup(func() { require.NoError(t, k.Close()) })
	return k
}

func newResource(args provisioner.RuntimeArgs) *provisioner.Resource {
	return &provisioner.Resource{ID: uuid.New(), Type: provisioner.Runtime, Fence: uuid.New(), Args: provisioner.Encode(args)}
}

var someKinds = []schema.GroupVersionResource{
	{Version: "v1", Resource: "configmaps"}, {Version: "v1", Resource: "secrets"}, {Version: "v1", Resource: "services"},
	{Version: "v1", Resource: "serviceaccounts"}, {Version: "v1", Resource: "persistentvolumeclaims"}, {Version: "v1", Resource: "pods"},
	{Group: "apps", Version: "v1", Resource: "deployments"}, {Group: "apps", Version: "v1", Resource: "statefulsets"},
	{Group: "apps", Version: "v1", Resource: "replicasets"}, {Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
	{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"}, {Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
}

// objects are all that has our label of a provisioner, pods and what is leaving included.
func (w *world) objects(provisionerName string, id uuid.UUID) []unstructured.Unstructured {
	selector := LabelManagedBy + "=berth," + LabelProvisioner + "=" + provisionerName
	if id != uuid.Nil {
		selector += "," + LabelResource + "=" + id.String()
	}
	found := make([][]unstructured.Unstructured, len(someKinds))
	err := sideBySide(len(someKinds), func(i int) error {
		list, err := w.dynamic.Resource(someKinds[i]).Namespace(w.Name).List(context.Background(), metav1.ListOptions{LabelSelector: selector})
		if err == nil {
			found[i] = list.Items
		}
		return err
	})
	if err != nil {
		panic(err)
	}
	return slices.Concat(found...)
}

// versions are the versions of objects, but of pods and of what counts them.
func (w *world) versions(name string, id uuid.UUID) map[string]string {
	all := map[string]string{}
	for _, o := range w.objects(name, id) {
		all[titleOf(&o)] = o.GetResourceVersion()
	}
	return all
}

func (w *world) uids(name string, id uuid.UUID, kind string) (all []string) {
	for _, o := range w.objects(name, id) {
		if o.GetKind() == kind {
			all = append(all, string(o.GetUID()))
		}
	}
	slices.Sort(all)
	return all
}

const patience = time.Minute // on a machine that is very busy; a moment else

// until waits for something to be so.
func until(t *testing.T, what string, so func() (bool, string)) {
	t.Helper()
	end := time.Now().Add(patience)
	for {
		ok, last := so()
		if ok {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not so after %v: %s: %s", patience, what, last)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

type method func(context.Context, *provisioner.Resource) (provisioner.Observation, error)

// drive calls until the phase is there.
func drive(t *testing.T, do method, r *provisioner.Resource, want provisioner.Phase) provisioner.Observation {
	t.Helper()
	var o provisioner.Observation
	until(t, "phase "+string(want), func() (bool, string) {
		var err error
		o, err = do(t.Context(), r)
		if errors.Is(err, errMoved) {
			return false, err.Error()
		}
		require.NoError(t, err, "%+v", o)
		return o.Phase == want, fmt.Sprintf("%+v", o)
	})
	return o
}

// says1 calls until the reason is there.
func driveToReason(t *testing.T, do method, r *provisioner.Resource, reason string) (provisioner.Observation, error) {
	t.Helper()
	var o provisioner.Observation
	var err error
	until(t, "reason "+reason, func() (bool, string) {
		o, err = do(t.Context(), r)
		return o.Reason == reason, fmt.Sprintf("%+v %v", o, err)
	})
	return o, err
}

func config(t *testing.T, r *provisioner.Resource) provisioner.RuntimeConfig {
	t.Helper()
	var c provisioner.RuntimeConfig
	require.NoError(t, json.Unmarshal(r.Config, &c))
	return c
}
