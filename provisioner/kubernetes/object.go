package kubernetes

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// An Object is one object that a resource consists of. Its whole numbers are int64. It has its name, its namespace and our labels.
type Object struct {
	*unstructured.Unstructured
	Key   string // of its template in template_paths
	File  string // the template
	Known bool   // its kind is one of Kubernetes itself, so its fields were checked, and what is empty was dropped
}

// notOurs are the fields of metadata that a template can not set: the cluster's, or those that say whose the object is.
var notOurs = []string{"generateName", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
	"deletionGracePeriodSeconds", "managedFields", "ownerReferences", "selfLink"}

// head checks what every object has, and sets its name and namespace.
func head(tree map[string]any, key, namespace, id string) (schema.GroupVersionKind, []problem) {
	var wrong []problem
	bad := func(path, format string, args ...any) {
		wrong = append(wrong, problem{path: path, text: fmt.Sprintf(format, args...)})
	}
	apiVersion, _ := tree["apiVersion"].(string)
	kind, _ := tree["kind"].(string)
	gv, err := schema.ParseGroupVersion(apiVersion)
	switch {
	case apiVersion == "" || err != nil:
		bad("apiVersion", "has no apiVersion, such as apps/v1")
	case kind == "":
		bad("kind", "has no kind, such as Deployment")
	}
	if len(wrong) > 0 {
		return schema.GroupVersionKind{}, wrong
	}
	gvk := gv.WithKind(kind)
	if _, list := tree["items"].([]any); list && strings.HasSuffix(kind, "List") {
		bad("kind", "is a %s: write each object into a template of its own", kind)
		return gvk, wrong
	}
	if want, ok := standardKeys[key]; ok && want.kind != kind {
		bad("kind", "kind is %s, where %s wants %s: give it a key of its own", kind, key, want.kind)
	}
	metadata, ok := tree["metadata"].(map[string]any)
	if !ok {
		if tree["metadata"] != nil {
			bad("metadata", "metadata is %s and not an object", kindOf(tree["metadata"]))
			return gvk, wrong
		}
		metadata = map[string]any{}
		tree["metadata"] = metadata
	}
	for _, field := range notOurs {
		if metadata[field] != nil {
			bad("metadata."+field, "metadata.%s is not for a template to set", field)
		}
	}
	if !isEmpty(tree["status"]) && tree["status"] != nil {
		bad("status", "status is not for a template to set")
	}
	delete(tree, "status")
	if ns := metadata["namespace"]; ns != nil && ns != namespace {
		bad("metadata.namespace", "namespace is %v, where the spec says %s: leave it out", ns, namespace)
	}
	metadata["namespace"] = namespace
	if metadata["name"] == nil {
		metadata["name"] = nameOf(key, id)
	}
	name, ok := metadata["name"].(string)
	switch {
	case !ok:
		bad("metadata.name", "metadata.name is %s and not text", kindOf(metadata["name"]))
	case !strings.Contains(name, id):
		bad("metadata.name", "name %q holds no provision id, so that all resources would share the object: use .Names or .ProvisionID", name)
	default:
		if why := nameFault(kind, name); why != "" {
			bad("metadata.name", "%s", why)
		}
	}
	return gvk, append(wrong, keyProblems(metadata, "metadata")...)
}

// bodyProblems are what the cluster would not say, or only when it is too late.
func bodyProblems(tree map[string]any) (wrong []problem) {
	kind, _ := tree["kind"].(string)
	for _, path := range podTemplates[kind] {
		pods := at(tree, path)
		wrong = append(wrong, keyProblems(at(pods, "metadata"), join(path, "metadata"))...)
	}
	switch kind {
	case "Ingress":
		wrong = append(wrong, ingressHosts(tree)...)
	case "Deployment", "StatefulSet", "ReplicaSet", "DaemonSet":
		labels := at(tree, "spec.template.metadata.labels")
		for key, want := range at(tree, "spec.selector.matchLabels") {
			if labels[key] != want {
				wrong = append(wrong, problem{path: "spec.selector.matchLabels." + key, text: fmt.Sprintf("selector wants label %s, which the pods do not have", key)})
			}
		}
	}
	return wrong
}

// ingressHosts checks the hosts of an Ingress, which a cluster takes however long their parts are.
func ingressHosts(tree map[string]any) (wrong []problem) {
	check := func(v any, path string) {
		host, _ := v.(string)
		bare := strings.TrimPrefix(host, "*.")
		for _, label := range strings.Split(bare, ".") {
			if host != "" && len(label) > validation.DNS1123LabelMaxLength {
				wrong = append(wrong, problem{path: path, text: fmt.Sprintf("host %q has a part of %d characters, more than %d", host, len(label), validation.DNS1123LabelMaxLength)})
				return
			}
		}
		if why := validation.IsDNS1123Subdomain(bare); host != "" && len(why) > 0 {
			wrong = append(wrong, problem{path: path, text: fmt.Sprintf("host %q: %s", shorten(host), why[0])})
		}
	}
	rules, _ := at(tree, "spec")["rules"].([]any)
	for i, r := range rules {
		rule, _ := r.(map[string]any)
		check(rule["host"], fmt.Sprintf("spec.rules[%d].host", i))
	}
	tls, _ := at(tree, "spec")["tls"].([]any)
	for i, t := range tls {
		entry, _ := t.(map[string]any)
		hosts, _ := entry["hosts"].([]any)
		for j, h := range hosts {
			check(h, fmt.Sprintf("spec.tls[%d].hosts[%d]", i, j))
		}
	}
	return wrong
}
