package kubernetes

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"berth/provisioner"
)

// Data is what a template sees.
type Data struct {
	Image        string // without its tag
	ImageTag     string // the version, or what the spec pins the image to
	Host         string // the name alone, without scheme and port, as it stands in an Ingress
	CPU          int
	MemoryGB     int
	StorageBytes int64
	Slots        int
	DataDir      string
	ProvisionID  string
	InstanceID   string // the same: it is the instance's id on the runtime
	Names        Names
	Annotations  Annotations
	Environment  string
	Version      string
}

// Names are the names of the objects: HTTPIngress, GRPCIngress, Service, Deployment, PVC, and one by each further key of
// template_paths. One that is not there is an error.
type Names map[string]string

// Annotations are told of a resource by whoever asked for it. One that is not there is empty for index, and an error as a field.
type Annotations map[string]string

// The keys of template_paths that have a meaning, the kinds they are of, and their names.
var standardKeys = map[string]struct{ kind, field, prefix string }{
	"http_ingress": {"Ingress", "HTTPIngress", "http-runtime-"},
	"grpc_ingress": {"Ingress", "GRPCIngress", "grpc-runtime-"},
	"service":      {"Service", "Service", "runtime-"},
	"deployment":   {"Deployment", "Deployment", "runtime-"},
	"pvc":          {"PersistentVolumeClaim", "PVC", "runtime-"},
}

// nameOf is the name of the object of a key.
func nameOf(key, id string) string {
	if k, ok := standardKeys[key]; ok {
		return k.prefix + id
	}
	return strings.ReplaceAll(key, "_", "-") + "-" + id
}

func (s *Spec) names(id string) Names {
	n := Names{}
	for key, k := range standardKeys {
		n[k.field] = nameOf(key, id)
	}
	for _, f := range s.files {
		if _, ok := standardKeys[f.key]; !ok {
			n[f.key] = nameOf(f.key, id)
		}
	}
	return n
}

// data is what the templates see of a resource. It is made anew for each: a template could write into its maps.
func (s *Spec) data(id string, args provisioner.RuntimeArgs) Data {
	size := s.slot.Size(provisioner.RuntimeConfig{}, args.Slots)
	d := Data{
		Host: s.host.name(id), CPU: size.CPU, MemoryGB: size.MemoryGB, StorageBytes: size.StorageBytes, Slots: args.Slots,
		DataDir: s.dataDir, ProvisionID: id, InstanceID: id, Names: s.names(id),
		Annotations: Annotations{}, Environment: args.Environment, Version: s.options.Version(args),
	}
	maps.Copy(d.Annotations, args.Annotations)
	d.Image, d.ImageTag = s.image.at(d.Version)
	return d
}

const (
	maxValue  = 16 << 10  // bytes of one annotation, or of the environment
	maxValues = 128 << 10 // bytes of them all; a cluster keeps at most 256 KiB of annotations with an object
)

// checkArgs says whether objects can be made of args at all.
func (s *Spec) checkArgs(args provisioner.RuntimeArgs) error {
	if most := s.maxSlots(); args.Slots < 1 || args.Slots > most {
		return fmt.Errorf("%w: slots %d: ask for a whole number from 1 to %d", provisioner.ErrInvalid, args.Slots, most)
	}
	if err := provisioner.ValidVersion(s.options.Version(args)); err != nil {
		return err
	}
	if why := unfit(args.Environment); why != "" {
		return fmt.Errorf("%w: environment: %s", provisioner.ErrInvalid, why)
	}
	total := 0
	for _, key := range slices.Sorted(maps.Keys(args.Annotations)) {
		value := args.Annotations[key]
		total += len(key) + len(value)
		if why := unfit(key); why != "" {
			return fmt.Errorf("%w: key of an annotation: %s", provisioner.ErrInvalid, why)
		}
		if why := unfit(value); why != "" {
			return fmt.Errorf("%w: annotation %q: %s", provisioner.ErrInvalid, key, why)
		}
	}
	if total > maxValues {
		return fmt.Errorf("%w: annotations: they have %d bytes, more than %d", provisioner.ErrInvalid, total, maxValues)
	}
	return nil
}

// unfit says why text can not stand in an object.
func unfit(text string) string {
	switch {
	case len(text) > maxValue:
		return fmt.Sprintf("it has %d bytes, more than %d", len(text), maxValue)
	case !utf8.ValidString(text):
		return "it is not UTF-8"
	case strings.ContainsRune(text, 0):
		return "it holds a NUL character"
	}
	return ""
}
