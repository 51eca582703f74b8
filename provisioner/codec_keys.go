package provisioner

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// exactKeys reports the keys that T has no field for, compared exactly, and those written twice. Go's decoder takes "SLOTS"
// for slots, and the last of two, without a word.
func exactKeys[T any](raw json.RawMessage) error {
	var faults Faults
	n, fault := parseNode(raw, func(path string, _ int64) {
		faults = append(faults, Fault{Path: path, Problem: "written twice", Remedy: "keep one of them"})
	})
	if fault != nil {
		return Faults{*fault}
	}
	faults = append(faults, unknownKeys(n, reflect.TypeFor[T](), "")...)
	if len(faults) == 0 {
		return nil
	}
	return faults
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

func unknownKeys(n *node, t reflect.Type, path string) Faults {
	for t.Kind() == reflect.Pointer && !t.Implements(unmarshaler) {
		t = t.Elem()
	}
	if t.Implements(unmarshaler) || reflect.PointerTo(t).Implements(unmarshaler) {
		return nil
	}
	var faults Faults
	switch {
	case n.kind == kindObject && t.Kind() == reflect.Struct:
		fields := jsonFields(t)
		names := make([]string, 0, len(fields))
		for name := range fields {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, m := range n.members {
			inner := PathKey(path, m.key)
			if field, ok := fields[m.key]; ok {
				faults = append(faults, unknownKeys(m.value, field, inner)...)
			} else {
				faults = append(faults, Fault{Path: inner, Problem: "unknown key", Remedy: suggest(m.key, names)})
			}
		}
	case n.kind == kindObject && t.Kind() == reflect.Map:
		for _, m := range n.members {
			faults = append(faults, unknownKeys(m.value, t.Elem(), PathKey(path, m.key))...)
		}
	case n.kind == kindList && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array):
		for i, e := range n.elems {
			faults = append(faults, unknownKeys(e, t.Elem(), PathIndex(path, i))...)
		}
	}
	return faults
}

// jsonFields maps the JSON names of a struct's fields to their types, embedded structs included.
func jsonFields(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Tag.Get("json") == "-" || !f.IsExported() || f.Anonymous && name == "" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		fields[name] = f.Type
	}
	return fields
}
