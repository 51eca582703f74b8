package kubernetes

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A filler puts values where their tokens are, in a document that was read.
type filler struct {
	run    *run
	typed  map[string]reading // by paths; what is not in it is text
	loose  []string           // paths at which there was such text
	flaws  []problem
	places map[string]int // of paths that hold tokens: who printed the first
}

// How text that YAML would read as something else is put in.
type reading int

const (
	readText    reading = iota
	readTyped           // as the number or the truth that it is
	readNothing         // not at all
)

// settle finds where text has to be a number or a truth for the document to decode: there the template left quotes out on purpose.
func (w *filler) settle(document map[string]any, decodes func(tree any) bool) {
	all := w.loose
	w.typed = map[string]reading{}
	for _, path := range all {
		w.typed[path] = readNothing // which every field takes, so that each can be looked at alone
	}
	found := map[string]reading{}
	if !decodes(w.fill(document, "")) {
		w.typed = found // something else is wrong
		return
	}
	for _, path := range all {
		w.typed[path] = readText
		if !decodes(w.fill(document, "")) {
			found[path] = readTyped
		}
		w.typed[path] = readNothing
	}
	w.typed = found
}

// fill returns the document with its values.
func (w *filler) fill(v any, path string) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for key, inner := range v {
			name := key
			if values := w.run.tokens(key); len(values) > 0 {
				name = w.key(key, path, values)
			}
			if _, twice := m[name]; twice {
				w.flaws = append(w.flaws, problem{path: path, text: fmt.Sprintf("key %q is written twice", name)})
			}
			m[name] = w.fill(inner, join(path, name))
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i, inner := range v {
			l[i] = w.fill(inner, fmt.Sprintf("%s[%d]", path, i))
		}
		return l
	case string:
		values := w.run.tokens(v)
		if len(values) == 0 {
			return v
		}
		w.places[path] = values[0].place
		if token.FindString(v) == v {
			return w.whole(values[0], path)
		}
		return w.inside(v, values)
	}
	return v
}

// freeKeys are the maps whose keys mean nothing to the cluster.
var freeKeys = []string{"annotations", "labels", "data", "stringData"}

// key is a key with its values.
func (w *filler) key(key, path string, values []value) string {
	in := path[strings.LastIndexByte(path, '.')+1:]
	for _, v := range values {
		if w.run.file.places[v.place].from == fromTenant && !slices.Contains(freeKeys, in) {
			at := join(path, key)
			w.places[at] = v.place
			w.flaws = append(w.flaws, problem{path: at, text: fmt.Sprintf("{{ %s }} stands in a key: that would let it choose the field. Below %s it may", w.run.file.places[v.place].text, strings.Join(freeKeys, ", "))})
		}
	}
	if token.FindString(key) == key {
		if text, ok := w.whole(values[0], path).(string); ok {
			return text
		}
	}
	return w.inside(key, values)
}

// canonical matches text that YAML reads as a number or a truth and prints as the same text again, or as nothing.
var canonical = regexp.MustCompile(`\A(?:|true|false|0|-?[1-9][0-9]{0,17})\z`)

// whole is a value that is a scalar of its own.
func (w *filler) whole(v value, path string) any {
	p := w.run.file.places[v.place]
	text := dedent(v.text, p.trim)
	switch p.last {
	case asQuoted:
		if s, ok := unquote(text); ok {
			return s
		}
		w.flaws = append(w.flaws, problem{path: path, text: fmt.Sprintf("{{ %s }} comes to more than one quoted text", p.text)})
		return ""
	case asJSON:
		return w.json(text, p, path)
	}
	if canonical.MatchString(text) {
		w.loose = append(w.loose, path)
		switch w.typed[path] {
		case readNothing:
			return nil
		case readTyped:
			if n, err := strconv.ParseInt(text, 10, 64); err == nil {
				return n
			}
			if text == "" {
				return nil
			}
			return text == "true"
		}
	}
	return text
}

func (w *filler) json(text string, p place, path string) any {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		w.flaws = append(w.flaws, problem{path: path, text: fmt.Sprintf("{{ %s }} is not JSON", p.text)})
		return nil
	}
	v, why := numbers(v, path)
	if why != nil {
		w.flaws = append(w.flaws, *why)
		return nil
	}
	switch v.(type) {
	case map[string]any, []any:
		if w.run.file.jsonIn {
			w.flaws = append(w.flaws, problem{path: path, text: fmt.Sprintf("{{ %s }} would let whoever wrote the JSON choose the fields: take what is needed out of it, one by one", p.text)})
			return nil
		}
	}
	return v
}

// unquote is the text that quote, squote or %q was given; false if it was more than one.
func unquote(text string) (string, bool) {
	if inner, ok := strings.CutPrefix(text, "'"); ok {
		inner, ok = strings.CutSuffix(inner, "'")
		bare := strings.ReplaceAll(inner, "''", "")
		return strings.ReplaceAll(inner, "''", "'"), ok && !strings.Contains(bare, "'")
	}
	s, err := strconv.Unquote(text)
	return s, err == nil
}

// numbers makes int64 of whole numbers.
func numbers(v any, path string) (any, *problem) {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			n, why := numbers(inner, join(path, k))
			if why != nil {
				return nil, why
			}
			v[k] = n
		}
	case []any:
		for i, inner := range v {
			n, why := numbers(inner, fmt.Sprintf("%s[%d]", path, i))
			if why != nil {
				return nil, why
			}
			v[i] = n
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n, nil
		}
		f, err := v.Float64()
		if err != nil {
			return nil, &problem{path: path, text: fmt.Sprintf("%s is no number that an object can hold", v)}
		}
		return plain(f, path)
	}
	return v, nil
}

// inside is text with its values in it.
func (w *filler) inside(text string, values []value) string {
	next := 0
	return token.ReplaceAllStringFunc(text, func(t string) string {
		if next == len(values) {
			return t
		}
		v := values[next]
		next++
		return dedent(v.text, w.run.file.places[v.place].trim)
	})
}

// dedent takes away what indent or nindent put before each line, as a block of YAML does.
func dedent(text string, n int) string {
	if n == 0 {
		return text
	}
	text = strings.TrimLeft(text, " \n")
	return strings.ReplaceAll(text, "\n"+strings.Repeat(" ", n), "\n")
}
