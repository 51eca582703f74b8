package kubernetes

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// immutable are the fields that a cluster lets nobody change, by kind. Of those in mutableSpec everything else.
var immutable = map[string][]string{
	"Deployment":            {"spec.selector"},
	"ReplicaSet":            {"spec.selector"},
	"DaemonSet":             {"spec.selector"},
	"Job":                   {"spec.selector", "spec.template", "spec.completionMode", "spec.podFailurePolicy", "spec.backoffLimitPerIndex", "spec.managedBy"},
	"Service":               {"spec.clusterIP", "spec.clusterIPs"},
	"RoleBinding":           {"roleRef"},
	"Secret":                {"type"},
	"PersistentVolumeClaim": {},
	"StatefulSet":           {},
}

// mutableSpec are the fields of spec that can be changed where most can not.
var mutableSpec = map[string][]string{
	"PersistentVolumeClaim": {"resources", "volumeAttributesClassName"},
	"StatefulSet": {"replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit", "persistentVolumeClaimRetentionPolicy",
		"minReadySeconds", "volumeClaimTemplates"},
}

// compare says which fields differ between two renderings of a template and can not be changed. what is in what the data differ.
func (s *Spec) compare(f *file, a, b Object, what string) (flaws []flaw) {
	differ := func(path string, x, y any) {
		if reflect.DeepEqual(x, y) {
			return
		}
		flaws = append(flaws, flaw{
			line:    f.lineOfKey(path),
			problem: fmt.Sprintf("%s differs with %s, and can not be changed once it is there", path, what),
			remedy:  "use what stays the same, such as .ProvisionID",
		})
	}
	for _, path := range []string{"apiVersion", "kind", "metadata.name"} {
		differ(path, field(a, path), field(b, path))
	}
	if len(flaws) > 0 || !a.Known {
		return flaws
	}
	kind := a.GetKind()
	for _, path := range immutable[kind] {
		differ(path, field(a, path), field(b, path))
	}
	if mutable, ok := mutableSpec[kind]; ok {
		x, y := at(a.Object, "spec"), at(b.Object, "spec")
		keys := map[string]bool{}
		for key := range x {
			keys[key] = true
		}
		for key := range y {
			keys[key] = true
		}
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			if !slices.Contains(mutable, key) {
				differ("spec."+key, x[key], y[key])
			}
		}
	}
	if kind == "StatefulSet" {
		x, y := claims(a), claims(b)
		differ("spec.volumeClaimTemplates", x, y)
	}
	if (kind == "Secret" || kind == "ConfigMap") && (a.Object["immutable"] == true || b.Object["immutable"] == true) {
		for _, path := range []string{"immutable", "data", "stringData", "binaryData"} {
			differ(path, a.Object[path], b.Object[path])
		}
	}
	return flaws
}

// claims are the templates of a StatefulSet's disks without their sizes, which can grow.
func claims(o Object) (templates []any) {
	list, _ := at(o.Object, "spec")["volumeClaimTemplates"].([]any)
	for _, c := range list {
		claim, ok := c.(map[string]any)
		if !ok {
			continue
		}
		spec := maps.Clone(at(claim, "spec"))
		delete(spec, "resources")
		claim = maps.Clone(claim)
		claim["spec"] = spec
		templates = append(templates, claim)
	}
	return templates
}

// field is what stands at a path of dots.
func field(o Object, path string) any {
	dot := strings.LastIndexByte(path, '.')
	if dot < 0 {
		return o.Object[path]
	}
	return at(o.Object, path[:dot])[path[dot+1:]]
}

// lineOfKey is the line of the template on which the last key of a path is written first; 0 if it can not be found.
func (f *file) lineOfKey(path string) int {
	key := path[strings.LastIndexByte(path, '.')+1:] + ":"
	for i, l := range strings.Split(f.source, "\n") {
		if strings.Contains(l, key) {
			return i + 1
		}
	}
	return 0
}

func (s *Spec) warnOnce(f *file, path, text, remedy string) {
	line := f.lineOfKey(path)
	w := f.fault(flaw{line: line, problem: text, remedy: remedy})
	for _, other := range s.warnings {
		if other == w {
			return
		}
	}
	s.warnings = append(s.warnings, w)
}

// advise warns of what is no fault and hardly meant.
func (s *Spec) advise(objects []Object) {
	for _, o := range objects {
		f := s.file(o.Key)
		if !o.Known {
			s.warnOnce(f, "kind", fmt.Sprintf("%s of %s is not known here: its fields are checked by the cluster alone", o.GetKind(), o.GetAPIVersion()), "")
		}
		// An autoscaler, of Kubernetes or a custom one, names what it scales in the same field.
		target := at(o.Object, "spec.scaleTargetRef")
		for _, w := range objects {
			kind, _ := target["kind"].(string)
			if kind == "" {
				kind = "Deployment"
			}
			if target == nil || w.GetKind() != kind || w.GetName() != target["name"] || at(w.Object, "spec")["replicas"] == nil {
				continue
			}
			s.warnOnce(s.file(w.Key), "spec.replicas", fmt.Sprintf("replicas is set here, and by the autoscaler of template_paths.%s: each would undo what the other does", o.Key), "leave replicas out")
		}
	}
}
