package kubernetes

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/clientcmd"

	"berth/internal/defaults"
	"berth/provisioner"
)

// Type is what a configured entry calls this kind of provisioner.
const Type = "kubernetes"

// A Spec is the configuration of a cluster, its templates read and checked. It does not change, so it is safe for concurrent use.
type Spec struct {
	name    string // of the provisioner
	options provisioner.Options

	timeout     time.Duration
	dataDir     string
	host        hostPattern
	namespace   string
	image       image
	kubeconfig  string // a path; empty: the cluster that the worker runs in
	context     string // of the kubeconfig; empty: its current one
	qps, burst  int
	concurrency int
	pingPath    string // empty: nothing is asked
	slot        provisioner.Slot
	files       []*file

	warnings    provisioner.Faults
	fingerprint string
}

// hostPattern is a checked host of the spec, with a * for the provision id.
type hostPattern string

// url is the address of a resource.
func (h hostPattern) url(id string) string { return strings.ReplaceAll(string(h), "*", id) }

// name is the host of a resource, without scheme and port: what an Ingress takes.
func (h hostPattern) name(id string) string {
	_, rest, _ := strings.Cut(h.url(id), "://")
	name, _, _ := strings.Cut(rest, ":")
	return name
}

const (
	maxTimeout     = 24 * 60 * 60
	maxRate        = 10_000
	maxConcurrency = 10_000
)

// ReadSpec reads the spec of the provisioner of this name, and its templates, and checks all of it, without a cluster. Paths are
// relative to the directory in which the process was started. The error is a [provisioner.Faults] with everything that is wrong.
func ReadSpec(name string, raw json.RawMessage, o provisioner.Options) (*Spec, error) {
	s := provisioner.ReadSpec(raw)
	c := &Spec{
		name: name, options: o,
		timeout:     time.Duration(s.Int("timeout_seconds", "number of seconds", 1, maxTimeout)) * time.Second,
		dataDir:     s.StringOr("data_dir", ""),
		host:        readHost(s),
		namespace:   readNamespace(s),
		kubeconfig:  s.StringOr("kubeconfig_path", ""),
		context:     s.StringOr("context", ""),
		qps:         int(s.IntOr("qps", "number of requests a second", 1, maxRate, defaults.KubernetesQPS)),
		burst:       int(s.IntOr("burst", "number of requests at once", 1, maxRate, defaults.KubernetesBurst)),
		concurrency: int(s.IntOr("max_concurrency", "number of calls at once", 1, maxConcurrency, 0)),
		pingPath:    s.StringOr("ping_path", "/v1/ping"),
		slot:        provisioner.ReadSlot(s),
	}
	c.readImage(s)
	if u, err := url.Parse(c.pingPath); c.pingPath != "" && (c.pingPath[0] != '/' || err != nil || u.Host != "" || u.Fragment != "") {
		s.Fault("ping_path", "is not the path of a URL", `write one such as "/v1/ping", or "" to ask nothing`)
	}
	c.checkKubeconfig(s)
	paths := s.Object("template_paths")
	if all := c.readFiles(paths); all {
		c.check(paths)
	}
	if err := s.Err(); err != nil {
		return nil, err
	}
	c.fingerprint = c.digest(raw)
	return c, nil
}

func readHost(s *provisioner.Spec) hostPattern {
	host := s.String("host")
	if host == "" {
		return sampleHost // reported, and the templates can be checked all the same
	}
	if err := provisioner.ValidHostPattern(host); err != nil {
		for _, f := range provisioner.FaultsOf(err) {
			s.Fault("host", f.Problem, f.Remedy)
		}
		return sampleHost
	}
	return hostPattern(host)
}

func readNamespace(s *provisioner.Spec) string {
	namespace := s.String("namespace")
	if namespace != "" && len(validation.IsDNS1123Label(namespace)) > 0 {
		s.Fault("namespace", "is not the name of a namespace", "write lower-case letters, digits and dashes, at most 63")
	}
	return namespace
}

func (s *Spec) readImage(spec *provisioner.Spec) {
	text := spec.String("image")
	if text == "" {
		s.image.name = "image"
		return
	}
	var ok bool
	if s.image, ok = readImage(text); !ok {
		spec.Fault("image", "is not the name of an image", `write one such as "registry.example.com/team/runtime"; the version becomes its tag`)
		s.image.name = "image"
		return
	}
	if s.image.tag != "" {
		s.warn("image", fmt.Sprintf("%q is pinned: every version that is asked for runs this one", text), "leave the tag out to run the version that is asked for")
	}
}

// checkKubeconfig looks whether the file holds what it takes to reach a cluster, and reaches for none.
func (s *Spec) checkKubeconfig(spec *provisioner.Spec) {
	if s.kubeconfig == "" {
		if s.context != "" {
			spec.Fault("context", "is a context of no file", "name the file in kubeconfig_path, or leave the context out")
		}
		return
	}
	_, raw, why := readTemplate(s.kubeconfig)
	if why != "" {
		spec.Fault("kubeconfig_path", why, "name a kubeconfig file, or leave the key out inside a cluster")
		return
	}
	config, err := clientcmd.Load(raw)
	if err != nil {
		spec.Fault("kubeconfig_path", "is not a kubeconfig file", "") // what the parser says may quote a credential
		return
	}
	name := s.context
	if name == "" {
		name = config.CurrentContext
	}
	switch c := config.Contexts[name]; {
	case name == "":
		spec.Fault("kubeconfig_path", "has no current context", "name one in context")
	case c == nil && s.context != "":
		spec.Fault("context", "is not in "+s.kubeconfig, "")
	case c == nil:
		spec.Fault("kubeconfig_path", fmt.Sprintf("does not have its current context %q", name), "name one in context")
	case config.Clusters[c.Cluster] == nil:
		spec.Fault("kubeconfig_path", fmt.Sprintf("does not have the cluster %q of context %q", c.Cluster, name), "")
	case c.AuthInfo != "" && config.AuthInfos[c.AuthInfo] == nil:
		spec.Fault("kubeconfig_path", fmt.Sprintf("does not have the user %q of context %q", c.AuthInfo, name), "")
	}
}

// reason is why a file can not be read, without its name.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

func (s *Spec) warn(path, problem, remedy string) {
	s.warnings = append(s.warnings, provisioner.Fault{Path: path, Problem: problem, Remedy: remedy})
}

// Warnings are what a person should look at in a spec that is without fault.
func (s *Spec) Warnings() provisioner.Faults { return s.warnings }

// Fingerprint changes when the spec, a template or what latest means does, and with nothing else.
func (s *Spec) Fingerprint() string { return s.fingerprint }

func (s *Spec) digest(raw json.RawMessage) string {
	h := sha256.New()
	enc := json.NewEncoder(h)
	var spec any
	if json.Unmarshal(raw, &spec) == nil {
		_ = enc.Encode(spec) // sorted keys; a hash takes all
	}
	_ = enc.Encode(s.options)
	for _, f := range s.files {
		_ = enc.Encode([]string{f.key, f.source})
	}
	return hex.EncodeToString(h.Sum(nil))
}

// maxSlots is a number of slots that every size can be counted for.
func (s *Spec) maxSlots() int {
	return int(min(math.MaxInt32, math.MaxInt64/int64(1e9)/int64(max(s.slot.StorageGB, 1))))
}
