package kubernetes

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth/provisioner"
)

var (
	_ provisioner.Provisioner   = (*Kubernetes)(nil)
	_ provisioner.Lister        = (*Kubernetes)(nil)
	_ provisioner.Planner       = (*Kubernetes)(nil)
	_ provisioner.Warner        = (*Kubernetes)(nil)
	_ provisioner.Fingerprinter = (*Kubernetes)(nil)
	_ io.Closer                 = (*Kubernetes)(nil)
)

// Kubernetes is one namespace of a cluster. Make it with [Factory]. Safe for concurrent use.
type Kubernetes struct {
	spec         *Spec
	installation string
	cluster      *cluster
	pings        *http.Client
	kinds        []schema.GroupVersionKind // of the templates
}

// Factory makes provisioners for an installation of Berth: a name that no other installation has which uses the same namespace. It has
// to be the value of a label, and must not change: it is how we know our objects.
func Factory(installation string) provisioner.Factory { return factory(installation, nil, nil) }

// factory is Factory with what requests to the cluster and pings go through; nil is straight.
func factory(installation string, via func(http.RoundTripper) http.RoundTripper, pings http.RoundTripper) provisioner.Factory {
	return func(name string, raw json.RawMessage, o provisioner.Options) (provisioner.Provisioner, error) {
		if installation == "" || provisioner.LabelValue(installation) != installation {
			return nil, fmt.Errorf("%w: installation %q can not be the value of a label", provisioner.ErrInvalid, installation)
		}
		s, err := ReadSpec(name, raw, o)
		if err != nil {
			return nil, err
		}
		return &Kubernetes{spec: s, installation: installation, cluster: newCluster(s, via), pings: newPings(pings), kinds: s.kinds()}, nil
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
	return owner{provisionID: r.ProvisionID(), resourceID: r.ID.String(), provisioner: k.spec.name, installation: k.installation}
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
