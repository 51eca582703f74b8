package provisioner

import (
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// String reads text that has to be there: one line, not empty, no space at its ends.
func (s *Spec) String(key string) string {
	const remedy = `write text in quotes`
	n := s.need(key, remedy)
	if n == nil {
		return ""
	}
	if n.kind == kindText && n.text == "" {
		s.bad(key, n, "is empty", remedy)
		return ""
	}
	return s.text(key, n, remedy)
}

// StringOr reads text that may be left out or be empty: one line, no space at its ends.
func (s *Spec) StringOr(key, fallback string) string {
	n := s.find(key)
	if n == nil {
		return fallback
	}
	return s.text(key, n, "write text in quotes or leave the key out")
}

func (s *Spec) text(key string, n *node, remedy string) string {
	switch {
	case n.kind != kindText:
		s.bad(key, n, "is not text", remedy)
		return ""
	case strings.ContainsFunc(n.text, unicode.IsControl):
		s.bad(key, n, "holds a control character", "write one line of text")
		return ""
	case strings.TrimSpace(n.text) != n.text:
		s.bad(key, n, "begins or ends with a space", "take it away")
		return ""
	}
	return n.text
}

// OneOf reads text that is one of allowed. An empty fallback means that the key has to be there.
func (s *Spec) OneOf(key, fallback string, allowed ...string) string {
	remedy := "write one of " + strings.Join(allowed, ", ")
	n := s.find(key)
	if fallback == "" {
		n = s.need(key, remedy)
	}
	if n == nil {
		return fallback
	}
	for _, a := range allowed {
		if n.kind == kindText && n.text == a {
			return a
		}
	}
	s.bad(key, n, "is not known", remedy)
	return fallback
}

// Secret reads a secret that has to be there and is not empty. Its value is in no fault.
func (s *Spec) Secret(key string) Secret {
	s.veils[key] = true
	const remedy = "write text in quotes"
	n := s.need(key, remedy)
	if n == nil {
		return Secret{}
	}
	if n.kind != kindText || n.text == "" {
		s.bad(key, n, "is not a secret", remedy)
		return Secret{}
	}
	return NewSecret(n.text)
}

// SecretOr reads a secret that may be left out.
func (s *Spec) SecretOr(key string, fallback Secret) Secret {
	s.veils[key] = true
	if s.find(key) == nil {
		return fallback
	}
	return s.Secret(key)
}

// Bool reads true or false, which has to be there.
func (s *Spec) Bool(key string) bool {
	return s.truth(key, s.need(key, "write true or false"), false)
}

// BoolOr reads true or false, which may be left out.
func (s *Spec) BoolOr(key string, fallback bool) bool { return s.truth(key, s.find(key), fallback) }

func (s *Spec) truth(key string, n *node, fallback bool) bool {
	if n == nil {
		return fallback
	}
	if n.kind != kindBool {
		s.bad(key, n, "is not true or false", "write true or false, without quotes")
		return fallback
	}
	return n.text == "true"
}

// Int reads a whole number from lowest to highest that has to be there. what names it in faults: "number of slots". 2.0, 1e1
// and "2" are refused even where they mean a whole number: one way to write it, so that what is compared as text is equal.
func (s *Spec) Int(key, what string, lowest, highest int64) int64 {
	n := s.need(key, between(lowest, highest))
	if n == nil {
		return 0
	}
	return s.whole(key, n, what, lowest, highest)
}

// IntOr reads a whole number from lowest to highest that may be left out.
func (s *Spec) IntOr(key, what string, lowest, highest, fallback int64) int64 {
	n := s.find(key)
	if n == nil {
		return fallback
	}
	return s.whole(key, n, what, lowest, highest)
}

func between(lowest, highest int64) string {
	return fmt.Sprintf("write a whole number from %d to %d", lowest, highest)
}

func (s *Spec) whole(key string, n *node, what string, lowest, highest int64) int64 {
	if n.kind == kindNumber {
		if v, err := strconv.ParseInt(n.text, 10, 64); err == nil && lowest <= v && v <= highest && n.text != "-0" {
			return v
		}
	}
	problem, remedy := "is not a "+what, between(lowest, highest)
	if n.kind == kindText {
		problem = "is text and not a " + what
	}
	// What was meant is plain in some cases; then the remedy is the number itself.
	if v, ok := meant(n); ok && lowest <= v && v <= highest {
		remedy = "write " + strconv.FormatInt(v, 10)
		if n.kind == kindText {
			remedy += ", without quotes"
		}
	}
	s.bad(key, n, problem, remedy)
	return 0
}

// numeral matches the numbers that are looked into for what they mean. Exponents of more than two digits are left out: to
// work them out would take memory without end.
var numeral = regexp.MustCompile(`\A-?[0-9]{1,30}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,2})?\z`)

// meant is the whole number that was written in another notation.
func meant(n *node) (int64, bool) {
	if n.kind != kindNumber && n.kind != kindText || !numeral.MatchString(n.text) {
		return 0, false
	}
	r, ok := new(big.Rat).SetString(n.text)
	if !ok || !r.IsInt() || !r.Num().IsInt64() {
		return 0, false
	}
	return r.Num().Int64(), true
}

// Duration reads a length of time from lowest to highest, as text such as "90s", that has to be there.
func (s *Spec) Duration(key string, lowest, highest time.Duration) time.Duration {
	n := s.need(key, span(lowest, highest))
	if n == nil {
		return 0
	}
	return s.duration(key, n, lowest, highest)
}

// DurationOr reads a length of time from lowest to highest, as text such as "90s", that may be left out.
func (s *Spec) DurationOr(key string, lowest, highest, fallback time.Duration) time.Duration {
	n := s.find(key)
	if n == nil {
		return fallback
	}
	return s.duration(key, n, lowest, highest)
}

func span(lowest, highest time.Duration) string {
	return fmt.Sprintf("write a time from %q to %q", lowest, highest)
}

func (s *Spec) duration(key string, n *node, lowest, highest time.Duration) time.Duration {
	if n.kind == kindText {
		if d, err := time.ParseDuration(n.text); err == nil && lowest <= d && d <= highest {
			return d
		}
	}
	s.bad(key, n, "is not a length of time", span(lowest, highest))
	return 0
}

// Object reads an object that has to be there. It is never nil: one that is missing has no keys and reports nothing more.
func (s *Spec) Object(key string) *Spec {
	const remedy = "write an object, { ... }"
	n := s.need(key, remedy)
	if n != nil && n.kind != kindObject {
		s.bad(key, n, "is not an object", remedy)
		n = nil
	}
	return s.doc.spec(s.Path(key), n)
}

// Objects reads a list of at least lowest objects that has to be there. An element that is something else is a fault and is
// in the result as an object without keys, so that positions stay right.
func (s *Spec) Objects(key string, lowest int) []*Spec {
	var found []*Spec
	for i, n := range s.list(key, lowest, "objects") {
		path := PathIndex(s.Path(key), i)
		if n.kind != kindObject {
			s.doc.add(n.at, Fault{Path: path, Value: s.value(key, n), Problem: "is not an object", Remedy: "write an object, { ... }"})
			n = nil
		}
		found = append(found, s.doc.spec(path, n))
	}
	return found
}

// Strings reads a list of at least lowest texts that has to be there, each one line and not empty.
func (s *Spec) Strings(key string, lowest int) []string {
	var found []string
	for i, n := range s.list(key, lowest, "texts") {
		if n.kind != kindText || n.text == "" || strings.ContainsFunc(n.text, unicode.IsControl) || strings.TrimSpace(n.text) != n.text {
			s.doc.add(n.at, Fault{Path: PathIndex(s.Path(key), i), Value: n.shown(), Problem: "is not a line of text", Remedy: "write text in quotes"})
			continue
		}
		found = append(found, n.text)
	}
	return found
}

func (s *Spec) list(key string, lowest int, of string) []*node {
	remedy := "write a list of " + of + ", [ ... ]"
	n := s.need(key, remedy)
	switch {
	case n == nil:
		return nil
	case n.kind != kindList:
		s.bad(key, n, "is not a list", remedy)
		return nil
	case len(n.elems) < lowest:
		s.doc.add(n.at, Fault{Path: s.Path(key), Problem: fmt.Sprintf("has %d entries", len(n.elems)), Remedy: fmt.Sprintf("write at least %d", lowest)})
	}
	return n.elems
}

func (s *Spec) bad(key string, n *node, problem, remedy string) {
	s.doc.add(n.at, Fault{Path: s.Path(key), Value: s.value(key, n), Problem: problem, Remedy: remedy})
}
