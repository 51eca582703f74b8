package kubernetes

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"berth/provisioner"
)

// The sample data of the check.
const (
	sampleHost        = hostPattern("https://node-*.example.com")
	sampleText        = "sample"
	sampleEnvironment = "prod"
	sampleID          = "0a1b2c3d-4e5f-4071-8293-a4b5c6d7e8f9"
	digitsID          = "00000000-0000-4000-8000-000000000001" // YAML would take one without dashes for a number
)

// sampleAnnotations are those that are asked for with the names of organizations and projects.
var sampleAnnotations = []string{"organization_id", "organization_name", "organization_plan", "project_id", "project_name"}

// A sample is made-up data that the templates are rendered with.
type sample struct {
	what string // in which it differs from the first
	id   string
	args provisioner.RuntimeArgs
}

func (s sample) owner(name string) owner {
	r := sampleResource(s.id)
	return owner{provisionID: r.ProvisionID(), resourceID: r.ID.String(), provisioner: name, installation: sampleText}
}

// samples are full data, what differs from it in one thing each, and data in which all is missing that can be.
func (s *Spec) samples(text string) []sample {
	annotations := func(text string) map[string]string {
		all := map[string]string{}
		for _, key := range sampleAnnotations {
			all[key] = text
		}
		for _, f := range s.files {
			for _, key := range f.literals {
				all[key] = text
			}
		}
		return all
	}
	full := provisioner.RuntimeArgs{Slots: 2, Version: "1.2.3", Environment: sampleEnvironment, Annotations: annotations(text)}
	with := func(change func(*provisioner.RuntimeArgs)) provisioner.RuntimeArgs {
		a := full
		a.Annotations = maps.Clone(full.Annotations)
		change(&a)
		return a
	}
	other := map[string]string{sampleText: "other", "1": "2"}[text]
	return []sample{
		{"", sampleID, full},
		{"the version", sampleID, with(func(a *provisioner.RuntimeArgs) { a.Version = "1.2.4" })},
		{"the number of slots", sampleID, with(func(a *provisioner.RuntimeArgs) { a.Slots = 3 })},
		{"the environment", sampleID, with(func(a *provisioner.RuntimeArgs) { a.Environment = "dev" })},
		{"the annotations", sampleID, with(func(a *provisioner.RuntimeArgs) { a.Annotations = annotations(other) })},
		{"the annotations", sampleID, with(func(a *provisioner.RuntimeArgs) { a.Annotations = nil })},
		{"", digitsID, provisioner.RuntimeArgs{Slots: 1, Environment: ""}},
	}
}

// check renders every template with sample data and adds what is wrong to the faults of the spec.
func (s *Spec) check(paths *provisioner.Spec) {
	if len(s.files) == 0 {
		s.warn("template_paths", "names no template: a resource would consist of nothing", "")
		return
	}
	seen := map[string]bool{}
	report := func(f *file, one flaw) {
		if id := f.key + f.text(one); !seen[id] {
			seen[id] = true
			paths.Fault(f.key, f.text(one), one.remedy)
		}
	}
	var complete []Object
	for _, f := range s.files {
		samples := s.samples(sampleText)
		first, flaws := s.try(f, samples[0])
		if len(flaws) > 0 {
			// Perhaps an annotation is to be a number.
			numbers := s.samples("1")
			if other, none := s.try(f, numbers[0]); len(none) == 0 {
				samples, first, flaws = numbers, other, nil
			}
		}
		for _, one := range flaws {
			report(f, one)
		}
		for _, smp := range samples[1:] {
			other, more := s.try(f, smp)
			for _, one := range more {
				report(f, one)
			}
			if len(flaws) > 0 || len(more) > 0 || smp.id != samples[0].id {
				continue
			}
			for _, one := range s.compare(f, first, other, smp.what) {
				report(f, one)
			}
		}
		for _, one := range s.literally(f, samples[0]) {
			report(f, one)
		}
		if len(flaws) == 0 {
			complete = append(complete, first)
		}
	}
	for _, one := range s.same(complete) {
		f := s.file(lastKey(one.Path))
		report(f, flaw{problem: one.Problem, remedy: one.Remedy})
	}
	s.advise(complete)
}

// try renders a template with a sample.
func (s *Spec) try(f *file, smp sample) (Object, []flaw) {
	o := smp.owner(s.name)
	object, flaws := s.renderFile(f, s.data(o.provisionID, smp.args), o, true)
	for i := range flaws {
		flaws[i].problem = strings.ReplaceAll(flaws[i].problem, o.provisionID, "<id>") // it is made up
	}
	return object, flaws
}

// literally renders a template as a plain template engine would, and says where that comes to something else: there the template
// relies on text being read as YAML.
func (s *Spec) literally(f *file, smp sample) []flaw {
	o := smp.owner(s.name)
	d := s.data(o.provisionID, smp.args)
	ours, failed := f.execute(d, false)
	if failed != nil {
		return nil // told already
	}
	theirs, failed := f.execute(d, true)
	if failed != nil {
		return []flaw{*failed}
	}
	const remedy = "print one text into one field; write keys, lists and quotes in the template itself, or end in quote or toJson"
	plain, wrong := readDocument(theirs.out.String())
	document, ourWrong := readDocument(ours.out.String())
	switch {
	case len(ourWrong) > 0 && len(wrong) > 0:
		return nil // told already
	case len(ourWrong) > 0:
		return []flaw{{line: ours.lineOf(ourWrong[0].line), problem: "what is printed here is text, and would be read as YAML", remedy: remedy}}
	case len(wrong) > 0:
		return []flaw{{line: theirs.lineOf(wrong[0].line), problem: wrong[0].text}}
	}
	w := &filler{run: ours, places: map[string]int{}}
	filled := w.fill(document, "")
	if len(w.flaws) > 0 {
		return nil // told already
	}
	path, differs := difference(plain, filled, "")
	if !differs {
		return nil
	}
	line := theirs.lineOf(lineOfPath(theirs.out.String(), path))
	if place, held := w.places[path]; held {
		line = f.places[place].line
	}
	return []flaw{{line: line, problem: fmt.Sprintf("%s: what is printed here is text, and would be read as YAML", path), remedy: remedy}}
}

// difference is the first path at which two documents differ. A number and the text that YAML would take for it do not.
func difference(a, b any, path string) (string, bool) {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			return path, true
		}
		for _, key := range slices.Sorted(maps.Keys(x)) {
			other, there := y[key]
			if !there {
				return join(path, key), true
			}
			if where, differs := difference(x[key], other, join(path, key)); differs {
				return where, true
			}
		}
		return path, len(x) != len(y)
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return path, true
		}
		for i := range x {
			if where, differs := difference(x[i], y[i], fmt.Sprintf("%s[%d]", path, i)); differs {
				return where, true
			}
		}
		return "", false
	}
	if text, ok := b.(string); ok && canonical.MatchString(text) {
		return path, fmt.Sprint(a) != text
	}
	return path, a != b
}

func sampleResource(id string) provisioner.Resource {
	return provisioner.Resource{ID: uuid.MustParse(id), Type: provisioner.Runtime}
}

// lastKey is the last key of a path such as template_paths.service.
func lastKey(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }
