package provisioner

import (
	"encoding/json"
	"slices"
	"sort"
	"strings"
)

// A Spec reads one JSON object of a provisioner's spec, strictly and completely: each method takes a key out of it, and
// whatever is wrong is remembered, so that Err reports every fault in one go. What could not be read is the zero value, so a
// factory reads everything first and asks Err once:
//
//	spec := provisioner.ReadSpec(raw)
//	strategy := spec.OneOf("strategy", "spread", "spread", "pack")
//	for i, r := range spec.Objects("runtimes", 1) {
//		host := r.String("host")
//		slots := r.Int("slots", "number of slots", 1, math.MaxInt32)
//		dir := r.StringOr("data_dir", "")
//		if host is no URL {
//			r.Fault("host", "is not the address of a runtime", `write it with its scheme, such as "http://10.0.0.1:8081"`)
//		}
//	}
//	if err := spec.Err(); err != nil {
//		return nil, err // a Faults
//	}
//
// The methods that take a fallback are for keys that may be left out; the others report a missing key. null is never a
// value: who wants the fallback leaves the key out.
//
// A key that no method asked for is unknown, and a fault. So ask for every key that may stand there, whatever the other keys
// say. A key in another case is unknown as well, and so is a fault what Go's decoder would take without a word: a key that is
// written twice, and a number such as 2.0 or 1e1 where a whole number is meant.
//
// A Spec is not safe for concurrent use.
type Spec struct {
	doc   *specDoc
	path  string
	node  *node // nil: there is nothing to read, and that was reported
	asked []string
	known map[string]bool // asked, as a set
	wrong map[string]bool // keys there in another case than asked, reported already
	veils map[string]bool // keys whose value is a secret
}

type specDoc struct {
	faults []placed
	specs  []*Spec
}

type placed struct {
	Fault
	at int64
}

// ReadSpec begins to read a spec. Nothing at all is read as {}, so that its missing keys are named.
func ReadSpec(raw json.RawMessage) *Spec {
	doc := &specDoc{}
	if len(raw) == 0 {
		return doc.spec("", &node{kind: kindObject})
	}
	n, fault := parseNode(raw, func(path string, at int64) {
		doc.add(at, Fault{Path: path, Problem: "written twice", Remedy: "keep one of them"})
	})
	switch {
	case fault != nil:
		doc.faults = nil // half of them would only confuse
		doc.add(0, *fault)
		n = nil
	case n.kind != kindObject:
		doc.add(0, Fault{Value: string(n.kind), Problem: "is not a spec", Remedy: "write an object, { ... }"})
		n = nil
	}
	return doc.spec("", n)
}

func (d *specDoc) add(at int64, f Fault) { d.faults = append(d.faults, placed{f, at}) }

func (d *specDoc) spec(path string, n *node) *Spec {
	s := &Spec{doc: d, path: path, node: n, known: map[string]bool{}, wrong: map[string]bool{}, veils: map[string]bool{}}
	d.specs = append(d.specs, s)
	return s
}

// Err returns everything that is wrong with the whole spec as [Faults], in the order in which it stands there, or nil. It may
// be called again, and on any object of the spec.
func (s *Spec) Err() error {
	all := slices.Clone(s.doc.faults)
	for _, one := range s.doc.specs {
		all = append(all, one.unknown()...)
	}
	if len(all) == 0 {
		return nil
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].at < all[j].at })
	faults := make(Faults, len(all))
	for i, p := range all {
		faults[i] = p.Fault
	}
	return faults
}

// Fault adds a fault of the caller's at a key of this object, or at the object itself if key is empty. The value that stands
// there is shown before problem, unless it was read with Secret.
func (s *Spec) Fault(key, problem, remedy string) {
	if s.node == nil {
		return // reported already
	}
	f := Fault{Path: s.Path(key), Problem: problem, Remedy: remedy}
	at := s.node.at
	if n := s.node.get(key); key != "" && n != nil {
		at = n.at
		f.Value = s.value(key, n)
	}
	s.doc.add(at, f)
}

// Path returns the path of a key of this object, such as runtimes[0].host, or of the object itself if key is empty.
func (s *Spec) Path(key string) string {
	if key == "" {
		return s.path
	}
	return PathKey(s.path, key)
}

// Has reports whether the key is there, and makes it a known one. For objects and lists that may be left out:
//
//	if spec.Has("slot") {
//		slot := spec.Object("slot")
//		...
//	}
func (s *Spec) Has(key string) bool { return s.find(key) != nil }

// Keys returns the keys of this object in the order in which they stand there, and makes them known ones: for an object whose keys
// are names that the person who wrote it chose.
func (s *Spec) Keys() []string {
	if s.node == nil {
		return nil
	}
	keys := make([]string, len(s.node.members))
	for i, m := range s.node.members {
		keys[i] = m.key
		s.find(m.key)
	}
	return keys
}

// value is how a fault shows what stands at the key.
func (s *Spec) value(key string, n *node) string {
	if s.veils[key] {
		return "***"
	}
	return n.shown()
}

// find looks a key up and makes it a known one. A key that is there in another case only is reported here.
func (s *Spec) find(key string) *node {
	if s.node == nil {
		return nil
	}
	if !s.known[key] {
		s.known[key] = true
		s.asked = append(s.asked, key)
	}
	if n := s.node.get(key); n != nil {
		return n
	}
	for _, m := range s.node.members {
		if strings.EqualFold(m.key, key) && !s.known[m.key] && !s.wrong[m.key] {
			s.wrong[m.key] = true
			s.doc.add(m.value.at, Fault{Path: s.Path(m.key), Problem: "unknown key", Remedy: "did you mean " + key})
		}
	}
	return nil
}

// need looks up a key that has to be there. remedy says what to write.
func (s *Spec) need(key, remedy string) *node {
	n := s.find(key)
	if n == nil && s.node != nil && !s.misspelt(key) {
		s.doc.add(s.node.at, Fault{Path: s.Path(key), Problem: "missing", Remedy: remedy})
	}
	return n
}

// misspelt reports whether the key is there in another case. Then that is the fault, and not that it is missing.
func (s *Spec) misspelt(key string) bool {
	for other := range s.wrong {
		if strings.EqualFold(other, key) {
			return true
		}
	}
	return false
}

// unknown lists the keys that nobody asked for. Their values are not shown: a mistyped key may hold a secret.
func (s *Spec) unknown() []placed {
	if s.node == nil {
		return nil
	}
	var found []placed
	for _, m := range s.node.members {
		if !s.known[m.key] && !s.wrong[m.key] {
			found = append(found, placed{Fault{Path: s.Path(m.key), Problem: "unknown key", Remedy: suggest(m.key, s.asked)}, m.value.at})
		}
	}
	return found
}

// suggest says what the key may have been meant to be.
func suggest(key string, known []string) string {
	for _, k := range known {
		if strings.EqualFold(k, key) {
			return "did you mean " + k
		}
	}
	for _, k := range known {
		if len(key) <= maxKeyShown && distance(key, k) <= len(k)/4+1 && len(k) > 2 {
			return "did you mean " + k
		}
	}
	if len(known) == 0 {
		return "remove it"
	}
	sorted := slices.Clone(known)
	slices.Sort(sorted)
	return "known are " + strings.Join(sorted, ", ")
}

// distance is the number of single letters to change, add or take away to come from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
