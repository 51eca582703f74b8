package kubernetes

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"berth/provisioner"
)

// The labels of our objects. What is ours is known by them, and by the resource's id in them alone.
const (
	LabelManagedBy    = "app.kubernetes.io/managed-by" // berth
	LabelInstance     = "app.kubernetes.io/instance"   // the provision id
	LabelProvisioner  = "berth.dev/provisioner"        // the name of the provisioner in the configured set
	LabelResource     = "berth.dev/resource-id"        // the id of the resource
	LabelInstallation = "berth.dev/installation"       // of which installation of Berth
)

// Manager is what says of an object that it is ours, and the name under which we own its fields.
const Manager = "berth"

// An owner is whose the objects are.
type owner struct{ provisionID, resourceID, provisioner, installation string }

// labels are those of an object.
func (o owner) labels() map[string]string {
	all := o.podLabels()
	all[LabelInstance] = o.provisionID
	all[LabelInstallation] = o.installation
	return all
}

// podLabels are those of pods and of the disks of a StatefulSet: what it takes to find them, and nothing that could ever change.
// A pod is made anew when a label of its template changes, and a disk's template can not change at all.
func (o owner) podLabels() map[string]string {
	return map[string]string{LabelManagedBy: Manager, LabelProvisioner: o.provisioner, LabelResource: o.resourceID}
}

// mark puts our labels on an object and on what is made of it. The problem is a label of ours that the template gives another value.
func (o owner) mark(tree map[string]any) []problem {
	wrong := put(tree, "", o.labels())
	kind, _ := tree["kind"].(string)
	for _, path := range podTemplates[kind] {
		if pods := at(tree, path); pods != nil {
			wrong = append(wrong, put(pods, path, o.podLabels())...)
		}
	}
	if kind == "StatefulSet" {
		claims, _ := at(tree, "spec")["volumeClaimTemplates"].([]any)
		for i, c := range claims {
			if claim, ok := c.(map[string]any); ok {
				wrong = append(wrong, put(claim, fmt.Sprintf("spec.volumeClaimTemplates[%d]", i), o.podLabels())...)
			}
		}
	}
	return wrong
}

// put adds labels to what stands at a path.
func put(tree map[string]any, path string, labels map[string]string) []problem {
	metadata, ok := tree["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		tree["metadata"] = metadata
	}
	have, ok := metadata["labels"].(map[string]any)
	if !ok {
		have = map[string]any{}
		metadata["labels"] = have
	}
	var wrong []problem
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if v, there := have[key]; there && v != labels[key] {
			wrong = append(wrong, problem{path: join(join(path, "metadata.labels"), key), text: fmt.Sprintf("label %s is Berth's own: leave it out", key)})
		}
		have[key] = labels[key]
	}
	return wrong
}

// legalise makes every value of a label, and of a selector of labels, legal by provisioner.LabelValue, the same one each time, and
// returns those that it had to change. Text of a tenant is no label as it comes: accepted in the object, it would be refused in its
// pods, and nothing would ever run.
func legalise(tree map[string]any) []problem {
	var changed []problem
	var walk func(v any, path, in string)
	walk = func(v any, path, in string) {
		switch v := v.(type) {
		case map[string]any:
			for key, inner := range v {
				labels := key == "labels" && in == "metadata" || key == "matchLabels" || path == "spec" && key == "selector" && tree["kind"] == "Service"
				if m, ok := inner.(map[string]any); ok && labels {
					changed = append(changed, legaliseMap(m, join(path, key))...)
					continue
				}
				walk(inner, join(path, key), key)
			}
		case []any:
			for i, inner := range v {
				walk(inner, fmt.Sprintf("%s[%d]", path, i), in)
			}
		}
	}
	walk(tree, "", "")
	return changed
}

func legaliseMap(m map[string]any, path string) (changed []problem) {
	for key, v := range m {
		text, ok := v.(string)
		if !ok {
			continue
		}
		if legal := provisioner.LabelValue(text); legal != text {
			m[key] = legal
			changed = append(changed, problem{path: join(path, key), text: fmt.Sprintf("%q can not be the value of a label: use at most 63 letters, digits, dashes, dots and underscores", shorten(text))})
		}
	}
	return changed
}

// keyProblems are the keys of labels and annotations that can not be.
func keyProblems(metadata map[string]any, path string) (wrong []problem) {
	for _, field := range []string{"labels", "annotations"} {
		m, _ := metadata[field].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(m)) {
			in := join(path, field)
			if why := validation.IsQualifiedName(key); len(why) > 0 {
				wrong = append(wrong, problem{path: join(in, key), text: fmt.Sprintf("%s: key %q: %s", in, shorten(key), why[0])})
			}
			if _, text := m[key].(string); !text && m[key] != nil {
				wrong = append(wrong, problem{path: join(in, key), text: fmt.Sprintf("%s is %s, where text is wanted: quote it", join(in, key), kindOf(m[key]))})
			}
		}
	}
	return wrong
}

// shorten cuts text to what a line can show.
func shorten(s string) string {
	const most = 60
	for i := range s {
		if i >= most {
			return s[:i] + "..."
		}
	}
	return s
}
