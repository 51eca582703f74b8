package kubernetes

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth/internal/defaults"
	"berth/provisioner"
)

var (
	_ provisioner.Provisioner   = (*Kubernetes)(nil)
	_ provisioner.Watcher       = (*Kubernetes)(nil)
	_ provisioner.Lister        = (*Kubernetes)(nil)
	_ provisioner.Planner       = (*Kubernetes)(nil)
	_ provisioner.Warner        = (*Kubernetes)(nil)
	_ provisioner.Fingerprinter = (*Kubernetes)(nil)
	_ io.Closer                 = (*Kubernetes)(nil)
)

// Kubernetes is one namespace of a cluster. Make it with [Factory]. Safe for concurrent use.
type Kubernetes struct {
	spec    *Spec
	ask     Installation
	known   atomic.Pointer[string] // what it answered: see installed
	cluster *cluster
	pings   *http.Client
	kinds   []schema.GroupVersionKind // of the templates
	cache   *cache
	silence time.Duration // of a watch, before it is made anew
}

// Factory makes provisioners for an installation of Berth, which is asked for once one of them is at work. To read and check a
// configuration nobody is asked.
func Factory(ask Installation) provisioner.Factory { return factory(ask, nil, nil) }

// factory is Factory with what requests to the cluster and pings go through; nil is straight.
func factory(ask Installation, via func(http.RoundTripper) http.RoundTripper, pings http.RoundTripper) provisioner.Factory {
	return func(name string, raw json.RawMessage, o provisioner.Options) (provisioner.Provisioner, error) {
		s, err := ReadSpec(name, raw, o)
		if err != nil {
			return nil, err
		}
		return &Kubernetes{
			spec: s, ask: ask, cluster: newCluster(s, via), pings: newPings(pings), kinds: s.kinds(), cache: newCache(), silence: defaults.KubernetesSilence,
		}, nil
	}
}

// Info says that a cluster holds runtimes, and what its spec says of time and of calls at once.
func (k *Kubernetes) Info() provisioner.Info {
	return provisioner.Info{Types: []provisioner.ResourceType{provisioner.Runtime}, Timeout: k.spec.timeout, Concurrency: k.spec.concurrency}
}

// Warnings are what a person should look at in the spec.
func (k *Kubernetes) Warnings() provisioner.Faults { return k.spec.Warnings() }

// Fingerprint changes when the spec, a template or what latest means does.
func (k *Kubernetes) Fingerprint() string { return k.spec.Fingerprint() }

// Close closes connections. No call is made after it.
func (k *Kubernetes) Close() error {
	k.cluster.close()
	k.pings.CloseIdleConnections()
	return nil
}

// owner is whose the objects of a resource are.
func (k *Kubernetes) owner(r provisioner.Resource) owner {
	return owner{provisionID: r.ProvisionID(), resourceID: r.ID.String(), provisioner: k.spec.name, installation: k.installation()}
}

// readArgs reads what is asked for. Its errors are ErrInvalid.
func readArgs(r provisioner.Resource) (provisioner.RuntimeArgs, error) {
	if r.Type != provisioner.Runtime {
		return provisioner.RuntimeArgs{}, fmt.Errorf("%w: type %q: a cluster holds resources of type %s only", provisioner.ErrInvalid, r.Type, provisioner.Runtime)
	}
	args, err := provisioner.Decode[provisioner.RuntimeArgs](r.Args)
	if err != nil {
		return args, fmt.Errorf("args: %w", err)
	}
	return args, nil
}
