package kubernetes

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"
)

// isKnown reports whether the kind is one of Kubernetes itself, so that its fields are known. An error says that it should be and
// is not.
func isKnown(gvk schema.GroupVersionKind) (bool, error) {
	switch {
	case scheme.Scheme.Recognizes(gvk):
		return true, nil
	case scheme.Scheme.IsVersionRegistered(gvk.GroupVersion()):
		return false, fmt.Errorf("%s has no kind %q", gvk.GroupVersion(), gvk.Kind)
	case gvk.Group == "":
		return false, fmt.Errorf("there is no apiVersion %q", gvk.Version)
	}
	return false, nil
}

// strictly decodes a tree as its kind and returns what is wrong: fields that are unknown or of another type. mistyped: only a type
// was wrong, so that another reading of its text may help.
func strictly(tree map[string]any, gvk schema.GroupVersionKind) (object runtime.Object, wrong []problem, mistyped bool) {
	object, err := scheme.Scheme.New(gvk)
	if err != nil {
		return nil, []problem{{text: err.Error()}}, false
	}
	raw, err := json.Marshal(tree)
	if err != nil {
		return nil, []problem{{text: err.Error()}}, false
	}
	strict, err := kjson.UnmarshalStrict(raw, object, kjson.DisallowUnknownFields)
	for _, s := range strict {
		p := problem{text: s.Error()}
		var field kjson.FieldError
		if errors.As(s, &field) {
			p.path = field.FieldPath()
			p.text = fmt.Sprintf("unknown field %q", p.path)
		}
		wrong = append(wrong, p)
	}
	if err != nil {
		wrong = append(wrong, typeProblem(err, tree, gvk))
		return nil, wrong, true
	}
	return object, wrong, false
}

// typeProblem says which field has a value that its type does not take.
func typeProblem(err error, tree map[string]any, gvk schema.GroupVersionKind) problem {
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) && mismatch.Field != "" {
		path := mismatch.Field
		if found := culprit(tree, gvk); found != "" {
			path = found // with the positions in lists
		}
		text := fmt.Sprintf("%s is %s, where %s is wanted", path, article(mismatch.Value), wanted(mismatch.Type.Kind().String()))
		if mismatch.Type.Kind() == reflect.String {
			text += ": quote it"
		}
		return problem{path: path, text: text}
	}
	path := culprit(tree, gvk)
	text := err.Error()
	if path != "" {
		text = fmt.Sprintf("%s: %s", path, text)
	}
	return problem{path: path, text: text}
}

func article(json string) string {
	kind, _, _ := strings.Cut(json, " ")
	switch kind {
	case "string":
		return "text"
	case "number":
		return "a number"
	case "bool":
		return "true or false"
	case "array":
		return "a list"
	}
	return "an " + kind
}

func wanted(kind string) string {
	switch {
	case strings.HasPrefix(kind, "int"), strings.HasPrefix(kind, "uint"), strings.HasPrefix(kind, "float"):
		return "a number"
	case kind == "string":
		return "text"
	case kind == "bool":
		return "true or false"
	case kind == "slice":
		return "a list"
	}
	return "an object"
}

// culprit finds the value without which the tree can be decoded. The decoder tells no place for quantities and the like.
func culprit(tree map[string]any, gvk schema.GroupVersionKind) string {
	decodes := func() bool {
		object, err := scheme.Scheme.New(gvk)
		if err != nil {
			return false
		}
		raw, err := json.Marshal(tree)
		return err == nil && kjson.UnmarshalCaseSensitivePreserveInts(raw, object) == nil
	}
	var search func(v any, path string, set func(any)) string
	search = func(v any, path string, set func(any)) string {
		set(nil)
		helps := decodes()
		set(v)
		if !helps {
			return ""
		}
		switch v := v.(type) {
		case map[string]any:
			for key, inner := range v {
				if found := search(inner, join(path, key), func(n any) { v[key] = n }); found != "" {
					return found
				}
			}
		case []any:
			for i, inner := range v {
				if found := search(inner, fmt.Sprintf("%s[%d]", path, i), func(n any) { v[i] = n }); found != "" {
					return found
				}
			}
		}
		return path
	}
	for key, inner := range tree {
		if found := search(inner, key, func(n any) { tree[key] = n }); found != "" {
			return found
		}
	}
	return ""
}

// prune drops what the API server would drop: null, and maps and lists that are empty where its types leave them out then. Without
// that each apply of such an object is a write.
func prune(tree map[string]any, object runtime.Object) error {
	kept, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	pruneMap(tree, kept)
	return nil
}

func pruneMap(tree, kept map[string]any) {
	for key, v := range tree {
		other, there := kept[key]
		switch v := v.(type) {
		case nil:
			delete(tree, key)
			continue
		case map[string]any:
			inner, _ := other.(map[string]any)
			pruneMap(v, inner)
		case []any:
			inner, _ := other.([]any)
			pruneList(v, inner)
		}
		if !there && isEmpty(v) {
			delete(tree, key)
		}
	}
}

func pruneList(list, kept []any) {
	if len(list) != len(kept) {
		return
	}
	for i, v := range list {
		m, ok := v.(map[string]any)
		other, same := kept[i].(map[string]any)
		if ok && same {
			pruneMap(m, other)
		}
	}
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}
