package kubernetes

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"berth/provisioner"
)

// annotationApplied is our mark on an object: the token under which it was written, a dot, and a digest of what was asked for.
const annotationApplied = "berth.dev/applied"

var (
	kindConfigMap = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	kindVolume    = schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"}
	kindPod       = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	kindEvent     = schema.GroupVersionKind{Version: "v1", Kind: "Event"}
	kindQuota     = schema.GroupVersionKind{Version: "v1", Kind: "ResourceQuota"}
	kindNode      = schema.GroupVersionKind{Version: "v1", Kind: "Node"}
	kindReplicas  = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}
	kindJob       = schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}
)

// anchorPrefix begins the names of anchors. No template can have such a name by its key: there is a dot in it.
const anchorPrefix = "berth."

// anchorName is the name of the anchor of a resource: the object that owns all others but the disks. Each time that a resource is made
// or woken it is made anew, and it is deleted first. Whatever a worker makes late has an owner then that is gone, and is collected.
func anchorName(provisionID string) string { return anchorPrefix + provisionID }

// objectKey identifies an object within a namespace, whatever version it is seen in.
func objectKey(o *unstructured.Unstructured) string {
	return o.GroupVersionKind().GroupKind().String() + "/" + o.GetName()
}

// title is an object as people call it.
func title(kind, name string) string { return kind + " " + name }

func titleOf(o *unstructured.Unstructured) string { return title(o.GetKind(), o.GetName()) }

// A wish is an object as it is to be.
type wish struct {
	*unstructured.Unstructured
	key    string
	digest string
}

func newWish(o *unstructured.Unstructured) wish {
	w := wish{Unstructured: o.DeepCopy(), key: objectKey(o)}
	plainSecret(w.Unstructured)
	w.sum()
	return w
}

// sum makes the digest anew. The same amounts written in another way are no change.
func (w *wish) sum() {
	raw, err := json.Marshal(plainAmounts(w.Object))
	if err != nil {
		panic(err) // it was made of YAML
	}
	sum := sha256.Sum256(raw)
	w.digest = hex.EncodeToString(sum[:8])
}

// plainAmounts is a tree in which the amounts of resources are written in one way: 2000m is 2, and 1Gi is 1073741824.
func plainAmounts(v any) any {
	switch v := v.(type) {
	case map[string]any:
		plain := make(map[string]any, len(v))
		for key, inner := range v {
			plain[key] = plainAmounts(inner)
		}
		resources, _ := plain["resources"].(map[string]any)
		for _, list := range resources {
			amounts, _ := list.(map[string]any)
			for name, amount := range amounts {
				if q, err := resource.ParseQuantity(fmt.Sprint(amount)); err == nil {
					amounts[name] = resource.NewDecimalQuantity(*q.AsDec(), resource.DecimalSI).String()
				}
			}
		}
		return plain
	case []any:
		plain := make([]any, len(v))
		for i, inner := range v {
			plain[i] = plainAmounts(inner)
		}
		return plain
	}
	return v
}

// mark is the annotation of the object when it was written under a token.
func (w *wish) mark(token string) string { return token + "." + w.digest }

// tokenOf is the token under which an object was written last.
func tokenOf(o *unstructured.Unstructured) string {
	token, _, _ := strings.Cut(o.GetAnnotations()[annotationApplied], ".")
	return token
}

// plainSecret puts stringData where the cluster puts it. Otherwise we would own a field that is never there, and what is dropped from it
// would stay.
func plainSecret(o *unstructured.Unstructured) {
	texts, ok := o.Object["stringData"].(map[string]any)
	if o.GetKind() != "Secret" || !ok {
		return
	}
	data, ok := o.Object["data"].(map[string]any)
	if !ok {
		data = map[string]any{}
	}
	for key, v := range texts {
		if text, ok := v.(string); ok {
			data[key] = base64.StdEncoding.EncodeToString([]byte(text))
		}
	}
	delete(o.Object, "stringData")
	if len(data) > 0 {
		o.Object["data"] = data
	}
}

func isVolume(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind().GroupKind() == kindVolume.GroupKind()
}

// anchor is the anchor of a resource. It says of which kinds objects may be there, so that all are found when the templates have
// changed or are not at hand, and how many slots they are.
func (k *Kubernetes) anchor(o owner, args provisioner.RuntimeArgs, kinds []schema.GroupVersionKind) *unstructured.Unstructured {
	names := make([]string, len(kinds))
	for i, one := range kinds {
		names[i] = kindName(one)
	}
	slices.Sort(names)
	a := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{
		"kinds": strings.Join(slices.Compact(names), "\n"), "slots": strconv.Itoa(args.Slots),
	}}}
	a.SetGroupVersionKind(kindConfigMap)
	a.SetNamespace(k.spec.namespace)
	a.SetName(anchorName(o.provisionID))
	a.SetLabels(o.labels())
	return a
}

// anchored are the kinds that an anchor names.
func anchored(a *unstructured.Unstructured) (kinds []schema.GroupVersionKind) {
	if a == nil {
		return nil
	}
	text, _, _ := unstructured.NestedString(a.Object, "data", "kinds")
	for _, name := range strings.Fields(text) {
		if kind, ok := parseKind(name); ok {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// kindName is a kind as one word: apps/v1/Deployment.
func kindName(k schema.GroupVersionKind) string { return k.GroupVersion().String() + "/" + k.Kind }

func parseKind(name string) (schema.GroupVersionKind, bool) {
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return schema.GroupVersionKind{}, false
	}
	gv, err := schema.ParseGroupVersion(name[:i])
	return gv.WithKind(name[i+1:]), err == nil && gv.Version != "" && name[i+1:] != ""
}

// union adds kinds that are not there in any version.
func union(kinds []schema.GroupVersionKind, more ...schema.GroupVersionKind) []schema.GroupVersionKind {
	all := slices.Clone(kinds)
	for _, one := range more {
		if !slices.ContainsFunc(all, func(k schema.GroupVersionKind) bool { return k.GroupKind() == one.GroupKind() }) {
			all = append(all, one)
		}
	}
	return all
}

// kinds are those of the templates, in the order in which they are applied.
func (s *Spec) kinds() []schema.GroupVersionKind {
	objects, _ := s.render(s.samples(sampleText)[0].args, s.samples(sampleText)[0].owner(s.name), false)
	if len(objects) < len(s.files) {
		more, _ := s.render(s.samples("1")[0].args, s.samples("1")[0].owner(s.name), false)
		objects = append(objects, more...)
	}
	var kinds []schema.GroupVersionKind
	for _, o := range objects {
		kinds = union(kinds, o.GroupVersionKind())
	}
	return kinds
}

// ownedBy makes an anchor the owner of an object.
func ownedBy(o *unstructured.Unstructured, anchor types.UID, name string) {
	o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: kindConfigMap.Kind, Name: name, UID: anchor}})
}

// anchorOf is the uid of the anchor that owns an object, of whatever incarnation; empty if none does.
func anchorOf(o *unstructured.Unstructured) types.UID {
	for _, ref := range o.GetOwnerReferences() {
		if ref.Kind == kindConfigMap.Kind && strings.HasPrefix(ref.Name, anchorPrefix) {
			return ref.UID
		}
	}
	return ""
}

// ours are which fields of an object are ours; nil if none are.
func ours(o *unstructured.Unstructured) *metav1.ManagedFieldsEntry {
	for _, m := range o.GetManagedFields() {
		if m.Manager == Manager && m.Operation == metav1.ManagedFieldsOperationApply && m.Subresource == "" && m.FieldsV1 != nil {
			return &m
		}
	}
	return nil
}

// oursDigest is a digest of which fields of an object are ours.
func oursDigest(o *unstructured.Unstructured) string {
	m := ours(o)
	if m == nil {
		return ""
	}
	sum := sha256.Sum256([]byte(m.APIVersion + m.FieldsV1.GetRawString()))
	return hex.EncodeToString(sum[:8])
}
