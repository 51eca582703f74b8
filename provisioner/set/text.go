package set

import (
	"bytes"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tailscale/hujson"

	"berth/provisioner"
)

// text knows on which line a byte stands.
type text struct{ starts []int }

func newText(raw string) *text {
	t := &text{starts: []int{0}}
	for i := range len(raw) {
		if raw[i] == '\n' {
			t.starts = append(t.starts, i+1)
		}
	}
	return t
}

// place returns line and column of a byte, from 1.
func (t *text) place(offset int) (line, column int) {
	line = sort.SearchInts(t.starts, offset+1)
	return line, offset - t.starts[line-1] + 1
}

func (t *text) line(offset int) int {
	line, _ := t.place(offset)
	return line
}

// invalidAt is where text stops to be UTF-8.
func invalidAt(raw string) int {
	for i, r := range raw {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(raw[i:]); size == 1 {
				return i
			}
		}
	}
	return len(raw)
}

// tooDeep looks for nesting beyond maxDepth without following it: the parser recurses, and its stack has an end that no
// recover stops.
func tooDeep(raw string) (at int, deep bool) {
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '{', '[':
			if depth++; depth > maxDepth {
				return i, true
			}
		case '}', ']':
			depth--
		case '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case '/':
			i = skipComment(raw, i)
		}
	}
	return 0, false
}

// skipComment returns the last byte of the comment that begins at i, or i if none does.
func skipComment(raw string, i int) int {
	var end string
	switch {
	case strings.HasPrefix(raw[i:], "//"):
		end = "\n"
	case strings.HasPrefix(raw[i:], "/*"):
		end = "*/"
	default:
		return i
	}
	n := strings.Index(raw[i+2:], end)
	if n < 0 {
		return len(raw)
	}
	return i + 2 + n + len(end) - 1
}

func keyOf(m *hujson.ObjectMember) string {
	literal, _ := m.Name.Value.(hujson.Literal) // the parser lets nothing else stand there
	return literal.String()
}

// find returns the first member with this key; nil if there is none.
func find(object *hujson.Object, key string) *hujson.ObjectMember {
	for i := range object.Members {
		if keyOf(&object.Members[i]) == key {
			return &object.Members[i]
		}
	}
	return nil
}

// plain writes a value as plain JSON, and of keys that are written twice the first only; those are told to twice.
func plain(v *hujson.Value, path string, twice func(path string, at, first int)) []byte {
	var b bytes.Buffer
	writePlain(&b, v, path, twice)
	return b.Bytes()
}

func writePlain(b *bytes.Buffer, v *hujson.Value, path string, twice func(path string, at, first int)) {
	switch value := v.Value.(type) {
	case *hujson.Object:
		first := map[string]int{}
		b.WriteByte('{')
		for i := range value.Members {
			m := &value.Members[i]
			key := keyOf(m)
			inner := provisioner.PathKey(path, key)
			if at, ok := first[key]; ok {
				twice(inner, m.Name.StartOffset, at)
				continue
			}
			first[key] = m.Name.StartOffset
			if len(first) > 1 {
				b.WriteByte(',')
			}
			b.Write(m.Name.Value.(hujson.Literal))
			b.WriteByte(':')
			writePlain(b, &m.Value, inner, twice)
		}
		b.WriteByte('}')
	case *hujson.Array:
		b.WriteByte('[')
		for i := range value.Elements {
			if i > 0 {
				b.WriteByte(',')
			}
			writePlain(b, &value.Elements[i], provisioner.PathIndex(path, i), twice)
		}
		b.WriteByte(']')
	case hujson.Literal:
		b.Write(value)
	}
}

// locate returns where in the text the path leads, starting at v. Where the path goes on to what is not there, it is the place
// of the last that is.
func locate(v *hujson.Value, path string) int {
	at := v.StartOffset
	for path != "" {
		next, rest, offset := descend(v, path)
		if next == nil {
			return at
		}
		v, path, at = next, rest, offset
	}
	return at
}

// descend follows the first part of the path.
func descend(v *hujson.Value, path string) (next *hujson.Value, rest string, at int) {
	switch value := v.Value.(type) {
	case *hujson.Object:
		for i := range value.Members {
			m := &value.Members[i]
			rest, ok := strings.CutPrefix(path, provisioner.PathKey("", keyOf(m)))
			if !ok || rest != "" && rest[0] != '.' && rest[0] != '[' {
				continue
			}
			at = m.Name.StartOffset
			if rest != "" {
				at = m.Value.StartOffset
			}
			return &m.Value, strings.TrimPrefix(rest, "."), at
		}
	case *hujson.Array:
		index, rest, ok := strings.Cut(strings.TrimPrefix(path, "["), "]")
		i, err := strconv.Atoi(index)
		if !ok || err != nil || i < 0 || i >= len(value.Elements) {
			return nil, "", 0
		}
		return &value.Elements[i], strings.TrimPrefix(rest, "."), value.Elements[i].StartOffset
	}
	return nil, "", 0
}

func shorten(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "..."
	}
	return s
}

// shortList joins names, and not too many of them.
func shortList(names []string) string {
	const most = 20
	if more := len(names) - most; more > 0 {
		return strings.Join(names[:most], ", ") + " and " + strconv.Itoa(more) + " more"
	}
	return strings.Join(names, ", ")
}
