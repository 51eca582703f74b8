package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/dynamic"
	typedappsv1 "k8s.io/client-go/kubernetes/typed/apps/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"berth/provisioner"
	"berth/provisioner/kubernetes"
)

// Templates is where the templates are that deployments on a cluster consist of, if nothing else is said.
const Templates = "examples/kubernetes/runtime"

// connectBound is how long a cluster has to answer at first.
const connectBound = 10 * time.Second

// ClusterOptions say which cluster is measured on, and with what.
type ClusterOptions struct {
	Kubeconfig string // a path; its current context counts
	Namespace  string // that is there; empty: one is made for each measurement, and deleted
	Templates  string // a directory of *.yaml
}

// A Cluster is what is measured on. Close it.
type Cluster struct {
	options ClusterOptions
	server  string // its address
	version string
	core    *typedcorev1.CoreV1Client
	apps    *typedappsv1.AppsV1Client
	dynamic *dynamic.DynamicClient
	sets    []set
	closers []func() error
}

// A set is the templates of a deployment.
type set struct {
	name  string
	paths map[string]string
	kinds []schema.GroupVersionKind // that objects of it may have
}

// small is what a deployment can hardly be smaller than. It asks for no CPU, so that many fit anywhere, and its image does nothing: it is
// what clusters run beside each pod anyway.
var small = map[string]string{
	"service": `apiVersion: v1
kind: Service
spec:
  selector: {runtime: {{ .ProvisionID | quote }}}
  ports: [{name: http, port: 80}]
`,
	"deployment": `apiVersion: apps/v1
kind: Deployment
spec:
  selector: {matchLabels: {runtime: {{ .ProvisionID | quote }}}}
  template:
    metadata: {labels: {runtime: {{ .ProvisionID | quote }}}}
    spec:
      terminationGracePeriodSeconds: 0
      automountServiceAccountToken: false
      enableServiceLinks: false
      containers: [{name: runtime, image: "registry.k8s.io/pause:3.10"}]
`,
}

// OpenCluster checks the options and connects. Its errors name the flags of the worker.
func OpenCluster(ctx context.Context, o ClusterOptions) (c *Cluster, err error) {
	c = &Cluster{options: o}
	opened := c
	defer func() {
		if err != nil {
			err = errors.Join(err, opened.Close())
		}
	}()
	if c.sets, err = c.readSets(); err != nil {
		return nil, err
	}
	if err := c.connect(ctx); err != nil {
		return nil, fmt.Errorf("--kubeconfig: %q: %w", o.Kubeconfig, err)
	}
	if o.Namespace != "" {
		asking, cancel := context.WithTimeout(ctx, connectBound)
		defer cancel()
		_, err := c.core.Namespaces().Get(asking, o.Namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("--namespace: %q is not there: make it, or leave the flag out to have one made", o.Namespace)
		}
		if err != nil {
			return nil, fmt.Errorf("--namespace: %q: look for it: %w", o.Namespace, err)
		}
	}
	return c, nil
}

// connect reads the credentials, which were checked, and asks the cluster what it is.
func (c *Cluster) connect(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", c.options.Kubeconfig)
	if err != nil {
		return fmt.Errorf("%w: name a file that kubectl takes", err)
	}
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	c.server = config.Host
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	c.closers = append(c.closers, func() error { utilnet.CloseIdleConnectionsFor(client.Transport); return nil })
	if c.core, err = typedcorev1.NewForConfigAndClient(config, client); err != nil {
		return err
	}
	if c.apps, err = typedappsv1.NewForConfigAndClient(config, client); err != nil {
		return err
	}
	if c.dynamic, err = dynamic.NewForConfigAndClient(config, client); err != nil {
		return err
	}
	raw, err := c.core.RESTClient().Get().AbsPath("/version").Timeout(connectBound).Do(ctx).Raw()
	var v version.Info
	if err == nil {
		err = json.Unmarshal(raw, &v)
	}
	if err != nil {
		return fmt.Errorf("ask the cluster for its version: %w: start it, or name the file of one that answers", err)
	}
	c.version = v.GitVersion
	return nil
}

// Close ends connections.
func (c *Cluster) Close() error {
	var errs []error
	for _, f := range slices.Backward(c.closers) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// readSets reads and checks the templates that were named, and writes the small ones.
func (c *Cluster) readSets() ([]set, error) {
	named := set{name: c.options.Templates, paths: map[string]string{}}
	files, err := filepath.Glob(filepath.Join(c.options.Templates, "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("--templates: %q holds no template: name a directory of *.yaml, such as %s of a checkout of Berth", c.options.Templates, Templates)
	}
	for _, f := range files {
		named.paths[strings.TrimSuffix(filepath.Base(f), ".yaml")] = f
	}
	dir, err := os.MkdirTemp("", "berth-bench-")
	if err != nil {
		return nil, err
	}
	c.closers = append(c.closers, func() error { return os.RemoveAll(dir) })
	least := set{name: "a Deployment and a Service", paths: map[string]string{}}
	for key, text := range small {
		least.paths[key] = filepath.Join(dir, key+".yaml")
		if err := os.WriteFile(least.paths[key], []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	sets := []set{named, least}
	for i := range sets {
		if sets[i].kinds, err = c.kindsOf(sets[i]); err != nil {
			return nil, err
		}
	}
	return sets, nil
}

// kindsOf checks a set.
func (c *Cluster) kindsOf(s set) ([]schema.GroupVersionKind, error) {
	spec, err := kubernetes.ReadSpec(poolName, c.spec(s, "berth-bench"), provisioner.Options{})
	if err != nil {
		faults := provisioner.FaultsOf(err)
		for i, f := range faults {
			switch {
			case f.Path == "kubeconfig_path":
				faults[i].Path = "--kubeconfig"
			case strings.HasPrefix(f.Path, "template_paths"):
				faults[i].Path = "--templates"
			}
		}
		return nil, faults
	}
	_, objects, err := render(spec, "berth-bench")
	if err != nil {
		return nil, fmt.Errorf("--templates: %q: %w", s.name, err)
	}
	kinds := []schema.GroupVersionKind{{Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "PersistentVolumeClaim"}} // beside the templates'
	waited := false
	for _, o := range objects {
		if kind := o.GroupVersionKind(); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
		waited = waited || isDeployment(o)
	}
	if !waited {
		return nil, fmt.Errorf("--templates: %q makes no Deployment, and for one the yardstick waits: name a directory with one", s.name)
	}
	return kinds, nil
}

// spec is that of a provisioner of these templates. Nothing is pinged: on a simulated network nothing would answer.
func (c *Cluster) spec(s set, namespace string) json.RawMessage {
	raw, err := json.Marshal(map[string]any{
		"timeout_seconds": 3600, "data_dir": "/mnt/data", "host": "https://node-*.example.com", "namespace": namespace, "image": "rilldata/rill",
		"template_paths": s.paths, "kubeconfig_path": c.options.Kubeconfig, "ping_path": "", "qps": 10_000, "burst": 10_000,
		"slot": map[string]int{"cpu": 1, "memory_gb": 1, "storage_gb": 1},
	})
	if err != nil {
		panic(err) // texts and numbers
	}
	return raw
}
