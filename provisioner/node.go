package provisioner

import (
	"bytes"
	"encoding/json"
	"io"
	"regexp"
	"strconv"
)

// maxDepth is how deep a spec may nest. Nothing that a person writes comes near it.
const maxDepth = 64

// A node is one JSON value as it was written: numbers keep their digits, members their order, duplicates included.
type node struct {
	kind    kind
	text    string   // of a string its value; of a number, true and false the letters
	members []member // of an object
	elems   []*node  // of a list
	at      int64    // place in the text, to put faults in order
}

type member struct {
	key   string
	value *node
}

type kind string

const (
	kindObject kind = "an object"
	kindList   kind = "a list"
	kindText   kind = "text"
	kindNumber kind = "a number"
	kindBool   kind = "true or false"
	kindNull   kind = "null"
)

// parseNode reads exactly one JSON value. Duplicate keys go to onDuplicate with the path of the object they are in.
func parseNode(raw []byte, onDuplicate func(path string, at int64)) (*node, *Fault) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	p := nodeParser{d: d, onDuplicate: onDuplicate}
	n, fault := p.value("", 0)
	if fault != nil {
		return nil, fault
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, &Fault{Problem: "has something after its end", Remedy: "write one JSON value"}
	}
	return n, nil
}

type nodeParser struct {
	d           *json.Decoder
	onDuplicate func(path string, at int64)
}

// syntax leaves out what the decoder says beyond the place: it may quote a value.
func (p nodeParser) syntax(path string) *Fault {
	return &Fault{Path: path, Problem: "not JSON from byte " + strconv.FormatInt(p.d.InputOffset(), 10) + " on"}
}

func (p nodeParser) value(path string, depth int) (*node, *Fault) {
	if depth > maxDepth {
		return nil, &Fault{Path: path, Problem: "nests deeper than " + strconv.Itoa(maxDepth) + " levels"}
	}
	tok, err := p.d.Token()
	if err != nil {
		return nil, p.syntax(path)
	}
	n := &node{at: p.d.InputOffset()}
	switch t := tok.(type) {
	case json.Delim:
		if t == '{' {
			n.kind = kindObject
			return n, p.object(n, path, depth)
		}
		n.kind = kindList
		return n, p.list(n, path, depth)
	case string:
		n.kind, n.text = kindText, t
	case json.Number:
		n.kind, n.text = kindNumber, t.String()
	case bool:
		n.kind, n.text = kindBool, strconv.FormatBool(t)
	default:
		n.kind, n.text = kindNull, "null"
	}
	return n, nil
}

func (p nodeParser) object(n *node, path string, depth int) *Fault {
	seen := map[string]bool{}
	for p.d.More() {
		tok, err := p.d.Token()
		if err != nil {
			return p.syntax(path)
		}
		key, _ := tok.(string) // the decoder lets nothing else stand here
		inner := PathKey(path, key)
		if seen[key] {
			p.onDuplicate(inner, p.d.InputOffset())
		}
		value, fault := p.value(inner, depth+1)
		if fault != nil {
			return fault
		}
		if !seen[key] { // the first one counts, so that what is said of it fits what stands first
			n.members = append(n.members, member{key, value})
		}
		seen[key] = true
	}
	if _, err := p.d.Token(); err != nil {
		return p.syntax(path)
	}
	return nil
}

func (p nodeParser) list(n *node, path string, depth int) *Fault {
	for i := 0; p.d.More(); i++ {
		value, fault := p.value(PathIndex(path, i), depth+1)
		if fault != nil {
			return fault
		}
		n.elems = append(n.elems, value)
	}
	if _, err := p.d.Token(); err != nil {
		return p.syntax(path)
	}
	return nil
}

func (n *node) get(key string) *node {
	for _, m := range n.members {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

var userinfo = regexp.MustCompile(`(://)[^/?#\s]*@`)

// shown is the value as a fault prints it: on one line, shortened, without the password of a URL. Of objects and lists
// only the kind is told, because a secret may be anywhere in them.
func (n *node) shown() string {
	switch n.kind {
	case kindObject, kindList:
		return string(n.kind)
	case kindText:
		return strconv.Quote(shorten(userinfo.ReplaceAllString(n.text, "$1***@"), maxValueShown))
	default:
		return shorten(n.text, maxValueShown)
	}
}
