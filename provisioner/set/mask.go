package set

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"

	"berth/provisioner"
)

const stars = "***"

// Masked returns the set as JSON of the shape in which it is configured, indented, names and keys sorted, with every secret
// as stars. A provisioner that is a [provisioner.Describer] tells its spec itself; in that of another, whatever a key says to
// be a secret is masked. So is the user of a URL.
func (s *Set) Masked() json.RawMessage {
	all := map[string]any{}
	for _, e := range s.All() {
		all[e.Name] = map[string]any{"type": e.Type, "spec": e.masked()}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(all); err != nil {
		return json.RawMessage(`{}`) // what was read from JSON can be written as JSON
	}
	return bytes.TrimSpace(b.Bytes())
}

func (e *Entry) masked() any {
	if d, ok := e.Provisioner.(provisioner.Describer); ok {
		if spec, err := describe(d); err == nil {
			return mask(spec, false)
		}
	}
	spec, err := decode(e.spec)
	if err != nil {
		return stars
	}
	return mask(spec, true)
}

func describe(d provisioner.Describer) (spec any, err error) {
	defer func() {
		if recover() != nil {
			spec, err = stars, nil
		}
	}()
	raw, err := json.Marshal(d.Spec())
	if err != nil {
		return nil, err
	}
	return decode(raw)
}

func decode(raw []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

var (
	secretKey = regexp.MustCompile(`(?i)passw|secret|token|credential|dsn|authorization|(api|access|private|signing|encryption|secret)_?key`)
	nameOnly  = regexp.MustCompile(`(?i)_(path|file|name|ref|dir|url)$`) // where or how it is called, and not what it is
	userinfo  = regexp.MustCompile(`(://)[^/?#\s]*@`)
)

// mask replaces what must not be seen. byKey also judges by keys.
func mask(v any, byKey bool) any {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			if byKey && secretKey.MatchString(key) && !nameOnly.MatchString(key) {
				v[key] = stars
			} else {
				v[key] = mask(inner, byKey)
			}
		}
	case []any:
		for i := range v {
			v[i] = mask(v[i], byKey)
		}
	case string:
		if strings.Contains(v, "@") {
			return userinfo.ReplaceAllString(v, "${1}"+stars+"@")
		}
	}
	return v
}
