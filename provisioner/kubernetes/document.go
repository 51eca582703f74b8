package kubernetes

import (
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v2"
)

// A problem is something wrong with a document.
type problem struct {
	line int // of the document, 0 if unknown
	path string
	text string
}

// yamlLine matches what errors of the parser say of the place.
var yamlLine = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`)

// readDocument reads text that holds exactly one document: a map whose whole numbers are int64. Documents that are empty do not
// count, so a line of three dashes may stand at the begin and the end.
func readDocument(text string) (map[string]any, []problem) {
	d := yaml.NewDecoder(strings.NewReader(text))
	d.SetStrict(true)
	var found map[string]any
	for {
		var v any
		err := d.Decode(&v)
		switch {
		case errors.Is(err, io.EOF):
			if found == nil {
				return nil, []problem{{line: 1, text: "renders to nothing: an object is wanted"}}
			}
			return found, nil
		case found != nil && (err != nil || v != nil):
			return nil, []problem{{line: secondDocument(text), text: "a second document begins here: only one is allowed, and the cluster would drop it without a word"}}
		case err != nil:
			return nil, yamlProblems(err)
		case v == nil:
			continue
		}
		tree, why := plain(v, "")
		if why != nil {
			return nil, []problem{*why}
		}
		object, ok := tree.(map[string]any)
		if !ok {
			return nil, []problem{{line: 1, text: fmt.Sprintf("renders to %s and not to an object", kindOf(tree))}}
		}
		found = object
	}
}

func yamlProblems(err error) []problem {
	var many *yaml.TypeError
	lines := []string{err.Error()}
	if errors.As(err, &many) {
		lines = many.Errors
	}
	var all []problem
	for _, l := range lines {
		p := problem{text: strings.TrimPrefix(strings.Join(strings.Fields(l), " "), "yaml: ")}
		if m := yamlLine.FindStringSubmatch(l); m != nil {
			p.line, _ = strconv.Atoi(m[1])
			p.text = m[2]
		}
		p.text = strings.Replace(p.text, "already set in map", "is written twice", 1)
		all = append(all, p)
	}
	return all
}

// secondDocument is the line on which the second document begins, found by its three dashes in the first column.
func secondDocument(text string) int {
	content := false
	for i, l := range strings.Split(text, "\n") {
		l = strings.TrimRight(l, "\r")
		rest, marked := l, false
		for _, m := range []string{"---", "..."} {
			if after, ok := strings.CutPrefix(l, m); ok && (after == "" || after[0] == ' ' || after[0] == '\t') {
				rest, marked = after, true
			}
		}
		if marked && content {
			return i + 1
		}
		if trimmed := strings.TrimSpace(rest); trimmed != "" && trimmed[0] != '#' && (marked || trimmed[0] != '%') {
			content = true
		}
	}
	return 0
}

// plain makes of what the parser returns what JSON has: maps with text as keys, lists, text, int64, float64, bool and nil.
func plain(v any, path string) (any, *problem) {
	bad := func(format string, args ...any) *problem {
		return &problem{path: path, text: fmt.Sprintf(format, args...)}
	}
	switch v := v.(type) {
	case map[any]any:
		m := make(map[string]any, len(v))
		for k, inner := range v {
			key, ok := keyOf(k)
			if !ok {
				return nil, bad("has a key that YAML reads as %v and not as text: quote it", k)
			}
			if _, twice := m[key]; twice {
				return nil, bad("key %q is written twice", key)
			}
			value, why := plain(inner, join(path, key))
			if why != nil {
				return nil, why
			}
			m[key] = value
		}
		return m, nil
	case []any:
		l := make([]any, len(v))
		for i, inner := range v {
			value, why := plain(inner, fmt.Sprintf("%s[%d]", path, i))
			if why != nil {
				return nil, why
			}
			l[i] = value
		}
		return l, nil
	case int:
		return int64(v), nil
	case uint64:
		if v > math.MaxInt64 {
			return nil, bad("%d is more than a whole number can be, %d", v, math.MaxInt64)
		}
		return int64(v), nil
	case float64:
		switch {
		case math.IsNaN(v) || math.IsInf(v, 0):
			return nil, bad("%v is no number that an object can hold", v)
		case v == math.Trunc(v) && math.Abs(v) < 1<<53:
			return int64(v), nil
		case v == math.Trunc(v):
			return nil, bad("%v is not exact: write the number in digits, or as text", v)
		}
		return v, nil
	case int64, bool, string, nil:
		return v, nil
	default:
		return nil, bad("a %T is nothing that an object can hold", v)
	}
}

func keyOf(k any) (string, bool) {
	switch k := k.(type) {
	case string:
		return k, true
	case int:
		return strconv.Itoa(k), true
	}
	return "", false // such as on, no, y and n
}

func kindOf(v any) string {
	switch v.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return "text"
	case nil:
		return "nothing"
	case bool:
		return "true or false"
	}
	return "a number"
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
