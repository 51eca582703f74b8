package kubernetes

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A change is a field that differs.
type change struct {
	path     fieldPath
	from, to any
}

// A fieldPath leads to a field: keys, and entries of lists as [name=x] where they have names, else [0].
type fieldPath []string

func (p fieldPath) String() string {
	var text strings.Builder
	for i, s := range p {
		if i > 0 && !strings.HasPrefix(s, "[") {
			text.WriteByte('.')
		}
		text.WriteString(s)
	}
	return text.String()
}

// isIn reports whether an object has the field. Of entries without a name it has what its list has.
func (p fieldPath) isIn(v any) bool {
	for _, step := range p {
		switch in := v.(type) {
		case map[string]any:
			inner, there := in[step]
			if !there {
				return false
			}
			v = inner
		case []any:
			at := named(in, step)
			if at < 0 {
				return !strings.HasPrefix(step, "[name=")
			}
			v = in[at]
		default:
			return false
		}
	}
	return true
}

// named is where the entry of a list is that a step of a path names; -1 if there is none, or it names none.
func named(list []any, step string) int {
	name, ok := strings.CutPrefix(strings.TrimSuffix(step, "]"), "[name=")
	return slices.IndexFunc(list, func(e any) bool {
		m, _ := e.(map[string]any)
		return ok && m["name"] == name
	})
}

func (p fieldPath) with(s string) fieldPath { return append(slices.Clone(p), s) }

// text is for people. The values of a secret are left out.
func (c change) text(secret bool) string {
	if secret && c.path[0] != "metadata" {
		return c.path.String() + ": changed"
	}
	return c.path.String() + ": " + shown(c.from) + " -> " + shown(c.to)
}

func shown(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case string:
		return strconv.Quote(shorten(v))
	case []any:
		return fmt.Sprintf("%d entries", len(v))
	}
	return shorten(fmt.Sprint(v))
}

// changesOf are the fields that differ.
func changesOf(a, b any, path fieldPath) []change {
	if reflect.DeepEqual(a, b) {
		return nil
	}
	x, xMap := a.(map[string]any)
	y, yMap := b.(map[string]any)
	if (xMap || a == nil) && (yMap || b == nil) && (xMap || yMap) {
		keys := map[string]bool{}
		for key := range x {
			keys[key] = true
		}
		for key := range y {
			keys[key] = true
		}
		var all []change
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			all = append(all, changesOf(x[key], y[key], path.with(key))...)
		}
		return all
	}
	p, pList := a.([]any)
	q, qList := b.([]any)
	if pList && qList && len(p) == len(q) {
		var all []change
		for i := range p {
			all = append(all, changesOf(p[i], q[i], path.with(entry(i, p[i], q[i])))...)
		}
		return all
	}
	return []change{{path, a, b}}
}

// entry names an entry of two lists.
func entry(i int, a, b any) string {
	x, _ := a.(map[string]any)
	y, _ := b.(map[string]any)
	if name, ok := x["name"].(string); ok && y["name"] == name {
		return "[name=" + name + "]"
	}
	return fmt.Sprintf("[%d]", i)
}

// without takes a field out of an object. An entry of a list that has no name takes the whole list with it: it may stand elsewhere there.
func without(o map[string]any, path fieldPath) {
	if len(path) == 0 {
		return
	}
	list, isList := o[path[0]].([]any)
	inner, isMap := o[path[0]].(map[string]any)
	switch {
	case isList && len(path) > 2 && strings.HasPrefix(path[1], "[name="):
		if at := named(list, path[1]); at >= 0 {
			entry, _ := list[at].(map[string]any)
			without(entry, path[2:])
		}
	case isMap && len(path) > 1:
		without(inner, path[1:])
	default:
		delete(o, path[0])
	}
}
