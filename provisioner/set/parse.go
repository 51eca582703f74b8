package set

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tailscale/hujson"

	"berth/provisioner"
)

// The environment variables that hold the text and the default's name. Faults of the whole name them; reading them is cmd's.
const (
	EnvSet     = "RILL_ADMIN_PROVISIONER_SET_JSON"
	EnvDefault = "RILL_ADMIN_DEFAULT_PROVISIONER"
	EnvFile    = "_FILE" // at the end of either: the path of a file that holds it
)

// MaxBytes is how long the text of a set may be.
const MaxBytes = 1 << 20

// Bounds of a set. No set that a person wrote comes near them.
const (
	maxDepth  = 64
	maxFaults = 500
)

// Parse reads a set and makes its provisioners, with reg to say which types there are and o for all of them. The error is a [provisioner.Faults] that
// holds everything that is wrong, in the order of the text; then nothing is left open.
func Parse(text, defaultName string, reg provisioner.Registry, o provisioner.Options) (*Set, error) {
	p := &parser{reg: reg, options: o, set: &Set{defaultName: defaultName, entries: map[string]*Entry{}}}
	p.parse(text)
	p.checkDefault()
	if len(p.faults) > 0 {
		for _, built := range p.built {
			_ = closeOne(built) // the faults are what to tell
		}
		return nil, p.result()
	}
	return p.set, nil
}

type parser struct {
	reg     provisioner.Registry
	options provisioner.Options
	set     *Set
	text    *text
	built   []provisioner.Provisioner
	faults  provisioner.Faults
	more    int // faults that were only counted

	read  bool            // the text could be read as an object
	named []string        // the names in it, faulty ones included
	wrong map[string]bool // names of which an entry is at fault
}

// parse reads the text into the set.
func (p *parser) parse(raw string) {
	p.wrong = map[string]bool{}
	const remedy = `write {"NAME": {"type": "TYPE", "spec": { ... }}}`
	whole := func(line int, problem, remedy string) {
		p.faults = append(p.faults, provisioner.Fault{Path: EnvSet, Line: line, Problem: problem, Remedy: remedy})
	}
	raw = strings.TrimPrefix(raw, "\ufeff")
	switch {
	case len(raw) > MaxBytes:
		whole(0, fmt.Sprintf("is longer than %d bytes", MaxBytes), "")
		return
	case strings.TrimSpace(raw) == "":
		whole(0, "no provisioner is configured", remedy)
		return
	case !utf8.ValidString(raw):
		p.text = newText(raw)
		whole(p.text.line(invalidAt(raw)), "not UTF-8", "save it as UTF-8")
		return
	}
	p.text = newText(raw)
	if at, deep := tooDeep(raw); deep {
		whole(p.text.line(at), fmt.Sprintf("nests deeper than %d levels", maxDepth), "")
		return
	}
	root, err := hujson.Parse([]byte(raw + "\n")) // a comment on the last line wants its end
	if err != nil {
		f := syntax(err)
		f.Line = min(f.Line, 1+strings.Count(raw, "\n")) // and not the line that was added
		f.Remedy = "look before it for a comma, quote or bracket that is missing"
		if f.Line == 1 && strings.ContainsAny(raw[:1], "@/.~") {
			f.Remedy = "write the text itself, or name its file in " + EnvSet + EnvFile
		}
		p.faults = append(p.faults, f)
		return
	}
	object, ok := root.Value.(*hujson.Object)
	if !ok {
		whole(p.text.line(root.StartOffset), "not an object", remedy)
		return
	}
	if len(object.Members) == 0 {
		whole(p.text.line(root.StartOffset), "no provisioner is configured", remedy)
		return
	}
	p.read = true
	first := map[string]int{}
	for i := range object.Members {
		m := &object.Members[i]
		name := keyOf(m)
		if at, twice := first[name]; twice {
			p.at(m.Name.StartOffset, provisioner.Fault{Path: provisioner.PathKey("", name), Problem: "written twice", Remedy: fmt.Sprintf("the first is on line %d; rename or remove one", p.text.line(at))})
			p.wrong[name] = true
		} else {
			first[name] = m.Name.StartOffset
			p.named = append(p.named, name)
		}
		before := len(p.faults)
		p.entry(name, m)
		if len(p.faults) > before {
			p.wrong[name] = true
		}
	}
}

// at adds a fault with the place of offset. Beyond maxFaults they are only counted.
func (p *parser) at(offset int, f provisioner.Fault) {
	if len(p.faults) >= maxFaults {
		p.more++
		return
	}
	f.Line, f.Column = p.text.place(offset)
	p.faults = append(p.faults, f)
}

// entry reads one named provisioner.
func (p *parser) entry(name string, m *hujson.ObjectMember) {
	path := provisioner.PathKey("", name)
	if err := provisioner.ValidName(name); err != nil {
		for _, f := range provisioner.FaultsOf(err) {
			f.Path = path
			p.at(m.Name.StartOffset, f)
		}
	}
	clean := plain(&m.Value, path, func(path string, at, first int) {
		p.at(at, provisioner.Fault{Path: path, Problem: "written twice", Remedy: fmt.Sprintf("the first is on line %d; keep one of them", p.text.line(first))})
	})
	object, ok := m.Value.Value.(*hujson.Object)
	if !ok {
		p.at(m.Value.StartOffset, provisioner.Fault{Path: path, Problem: "not an object", Remedy: `write {"type": "TYPE", "spec": { ... }}`})
		return
	}
	typeOf, spec := p.members(path, m, object)
	if typeOf == "" {
		return
	}
	factory := p.reg[typeOf]
	if factory == nil {
		p.at(find(object, "type").Value.StartOffset, provisioner.Fault{
			Path: path + ".type", Problem: "unknown type " + strconv.Quote(shorten(typeOf)), Remedy: "known: " + strings.Join(p.reg.Types(), ", "),
		})
		return
	}
	if spec == nil {
		return
	}
	var entry struct{ Spec json.RawMessage }
	if err := json.Unmarshal(clean, &entry); err != nil {
		p.at(m.Value.StartOffset, provisioner.Fault{Path: path, Problem: "not JSON"})
		return
	}
	built, err := build(factory, name, entry.Spec, p.options)
	if err != nil {
		faults := provisioner.FaultsOf(err)
		if more := len(faults) - maxFaults; more > 0 {
			faults, p.more = faults[:maxFaults], p.more+more
		}
		for _, f := range faults {
			at := locate(spec, f.Path)
			f.Path = provisioner.PathJoin(path+".spec", f.Path)
			p.at(at, f)
		}
		return
	}
	p.built = append(p.built, built)
	p.set.entries[name] = &Entry{Name: name, Type: typeOf, Provisioner: built, spec: entry.Spec}
}

// members takes the type and the spec out of an entry and reports what else is there.
func (p *parser) members(path string, m *hujson.ObjectMember, object *hujson.Object) (typeOf string, spec *hujson.Value) {
	seen := map[string]bool{}
	for i := range object.Members {
		inner := &object.Members[i]
		key := keyOf(inner)
		if seen[key] {
			continue // reported as a duplicate
		}
		seen[key] = true
		switch key {
		case "type":
			literal, ok := inner.Value.Value.(hujson.Literal)
			if !ok || literal.Kind() != '"' || literal.String() == "" {
				p.at(inner.Value.StartOffset, provisioner.Fault{Path: path + ".type", Problem: "not the name of a type", Remedy: "write one of " + strings.Join(p.reg.Types(), ", ")})
				continue
			}
			typeOf = literal.String()
		case "spec":
			if _, ok := inner.Value.Value.(*hujson.Object); !ok {
				p.at(inner.Value.StartOffset, provisioner.Fault{Path: path + ".spec", Problem: "not an object", Remedy: "write an object, { ... }"})
				continue
			}
			spec = &inner.Value
		default:
			remedy := "known are type and spec"
			if lower := strings.ToLower(key); lower == "type" || lower == "spec" {
				remedy = "did you mean " + lower
				seen[lower] = true
			}
			p.at(inner.Name.StartOffset, provisioner.Fault{Path: provisioner.PathKey(path, key), Problem: "unknown key", Remedy: remedy})
		}
	}
	if !seen["type"] {
		p.at(m.Name.StartOffset, provisioner.Fault{Path: path + ".type", Problem: "missing", Remedy: "write one of " + strings.Join(p.reg.Types(), ", ")})
	}
	if !seen["spec"] {
		p.at(m.Name.StartOffset, provisioner.Fault{Path: path + ".spec", Problem: "missing", Remedy: "write an object, { ... }"})
	}
	return typeOf, spec
}

// build calls a factory and makes a panic of it a fault.
func build(factory provisioner.Factory, name string, spec json.RawMessage, o provisioner.Options) (built provisioner.Provisioner, err error) {
	defer func() {
		switch panicked := recover().(type) {
		case nil:
		case runtime.Error:
			built, err = nil, provisioner.Fault{Problem: "the program that reads this spec has a bug and panicked: " + panicked.Error()}
		default: // what else a panic carries may hold a secret
			built, err = nil, provisioner.Fault{Problem: "the program that reads this spec has a bug and panicked"}
		}
	}()
	built, err = factory(name, slices.Clone(spec), o)
	if err == nil && built == nil {
		err = provisioner.Fault{Problem: "the program that reads this spec has a bug and made nothing of it"}
	}
	if err != nil && built != nil {
		_ = closeOne(built) // the fault is what to tell
		built = nil
	}
	return built, err
}

// checkDefault checks that the default is there and makes runtimes.
func (p *parser) checkDefault() {
	name := p.set.defaultName
	fault := func(value, problem, remedy string) {
		p.faults = append(p.faults, provisioner.Fault{Path: EnvDefault, Value: value, Problem: problem, Remedy: remedy})
	}
	slices.Sort(p.named)
	remedy := "write one of " + shortList(p.named)
	if !p.read {
		remedy = "write the name of a provisioner of the set"
	}
	if name == "" {
		fault("", "no default provisioner is named", remedy)
		return
	}
	if !p.read || p.wrong[name] {
		return
	}
	entry := p.set.entries[name]
	if entry == nil {
		fault(strconv.Quote(shorten(name)), "is not in the set", remedy)
		return
	}
	info, err := infoOf(entry.Provisioner)
	if err != nil {
		fault(strconv.Quote(name), err.Error(), "")
		return
	}
	if !info.Supports(provisioner.Runtime) {
		fault(strconv.Quote(name), fmt.Sprintf("does not make resources of type %s", provisioner.Runtime), "name one that does")
	}
}

func infoOf(p provisioner.Provisioner) (info provisioner.Info, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("panics when it is asked what it can make")
		}
	}()
	return p.Info(), nil
}

// result is the faults in order and bounded.
func (p *parser) result() provisioner.Faults {
	slices.SortStableFunc(p.faults, func(a, b provisioner.Fault) int {
		switch {
		case a.Path == EnvDefault || b.Path == EnvDefault: // it comes last
			return boolInt(a.Path == EnvDefault) - boolInt(b.Path == EnvDefault)
		case a.Line != b.Line:
			return a.Line - b.Line
		default:
			return a.Column - b.Column
		}
	})
	if p.more > 0 {
		p.faults = append(p.faults, provisioner.Fault{Path: EnvSet, Problem: fmt.Sprintf("%d more faults", p.more)})
	}
	return p.faults
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

var hujsonPlace = regexp.MustCompile(`line (\d+), column (\d+): `)

// syntax makes a fault of an error of the parser, without the text that it may quote.
func syntax(err error) provisioner.Fault {
	f := provisioner.Fault{Path: EnvSet, Problem: "not JSON"}
	if m := hujsonPlace.FindStringSubmatch(err.Error()); m != nil {
		f.Line, _ = strconv.Atoi(m[1])
		f.Column, _ = strconv.Atoi(m[2])
	}
	if inner := errors.Unwrap(err); inner != nil {
		detail, _, _ := strings.Cut(inner.Error(), "invalid literal: ")
		if detail == "" {
			detail = "text that is neither a string in double quotes nor a number, true, false or null"
		}
		f.Problem = fmt.Sprintf("not JSON at column %d: %s", f.Column, strings.ReplaceAll(detail, "unexpected EOF", "the text ends too early"))
	}
	return f
}
