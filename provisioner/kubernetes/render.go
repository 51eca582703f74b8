package kubernetes

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth/provisioner"
)

// Render returns the objects that a resource is to consist of, in the order in which they are applied: what others use first,
// workloads, and what leads traffic to them last. The same arguments give the same objects. installation says of which installation
// of Berth they are. The error is an ErrInvalid that names the template and its line, and the value where one is to blame; then
// nothing is to be written.
func (s *Spec) Render(r provisioner.Resource, args provisioner.RuntimeArgs, installation string) ([]Object, error) {
	if err := s.checkArgs(args); err != nil {
		return nil, err
	}
	o := owner{provisionID: r.ProvisionID(), resourceID: r.ID.String(), provisioner: s.name, installation: installation}
	objects, faults := s.render(args, o, false)
	if len(faults) == 0 {
		return objects, nil
	}
	if value := s.blame(args, o); value != "" {
		return nil, fmt.Errorf("%w: %s: %w", provisioner.ErrInvalid, value, faults[0])
	}
	more := ""
	if len(faults) > 1 {
		more = fmt.Sprintf(" (and %d more faults)", len(faults)-1)
	}
	return nil, fmt.Errorf("%w: %w%s", provisioner.ErrInvalid, faults[0], more)
}

// RuntimeConfig is how a runtime of these arguments is reached, and what it has once all of it is there.
func (s *Spec) RuntimeConfig(r provisioner.Resource, args provisioner.RuntimeArgs) provisioner.RuntimeConfig {
	url := s.host.url(r.ProvisionID())
	return s.slot.Size(provisioner.RuntimeConfig{Host: url, Audience: url, DataDir: s.dataDir, Version: s.options.Version(args)}, args.Slots)
}

// blame names the value that comes from outside and without which the templates render; empty if no single one is to blame.
func (s *Spec) blame(args provisioner.RuntimeArgs, o owner) string {
	works := func(a provisioner.RuntimeArgs) bool {
		_, faults := s.render(a, o, false)
		return len(faults) == 0
	}
	for _, key := range slices.Sorted(maps.Keys(args.Annotations)) {
		other := args
		other.Annotations = maps.Clone(args.Annotations)
		other.Annotations[key] = sampleText
		if works(other) {
			return fmt.Sprintf("annotation %q", key)
		}
		delete(other.Annotations, key)
		if works(other) {
			return fmt.Sprintf("annotation %q", key)
		}
	}
	other := args
	if other.Environment = sampleEnvironment; works(other) {
		return fmt.Sprintf("environment %q", args.Environment)
	}
	return ""
}

// render renders every template. strict: what a label needed to be legal is a fault too.
func (s *Spec) render(args provisioner.RuntimeArgs, o owner, strict bool) ([]Object, provisioner.Faults) {
	var (
		objects []Object
		faults  provisioner.Faults
	)
	for _, f := range s.files {
		object, flaws := s.renderFile(f, s.data(o.provisionID, args), o, strict)
		for _, one := range flaws {
			faults = append(faults, f.fault(one))
		}
		if len(flaws) == 0 {
			objects = append(objects, object)
		}
	}
	sortObjects(objects)
	return objects, append(faults, s.same(objects)...)
}

// same finds objects of two templates that are one.
func (s *Spec) same(objects []Object) (faults provisioner.Faults) {
	first := map[string]Object{}
	for _, o := range objects {
		gvk := o.GroupVersionKind()
		id := fmt.Sprintf("%s %s", gvk.GroupKind(), o.GetName())
		if other, twice := first[id]; twice {
			f := s.file(o.Key)
			faults = append(faults, f.fault(flaw{problem: fmt.Sprintf("is the same %s as template_paths.%s: %s", o.GetKind(), other.Key, o.GetName()), remedy: "leave its name out, or add to it"}))
		}
		first[id] = o
	}
	return faults
}

func (s *Spec) file(key string) *file {
	for _, f := range s.files {
		if f.key == key {
			return f
		}
	}
	return &file{key: key}
}

// fault is a flaw of a template as a fault of the spec.
func (f *file) fault(one flaw) provisioner.Fault {
	return provisioner.Fault{Path: provisioner.PathKey("template_paths", f.key), Value: strconv.Quote(shorten(f.path)), Problem: f.text(one), Remedy: one.remedy}
}

// text is a flaw as it is put after the path of the template. Of a long one only the begin is shown there.
func (f *file) text(one flaw) string {
	long := len(f.path) > maxPathShown
	switch {
	case one.line == 0 && long:
		return fmt.Sprintf("in %s: %s", filepath.Base(f.path), one.problem)
	case one.line == 0:
		return one.problem
	case long:
		return fmt.Sprintf("line %d of %s: %s", one.line, filepath.Base(f.path), one.problem)
	}
	return fmt.Sprintf("line %d: %s", one.line, one.problem)
}

const maxPathShown = 60

// renderFile renders one template.
func (s *Spec) renderFile(f *file, d Data, o owner, strict bool) (Object, []flaw) {
	r, failed := f.execute(d, false)
	if failed != nil {
		return Object{}, []flaw{*failed}
	}
	tree, wrong := readDocument(r.out.String())
	w := &filler{run: r, places: map[string]int{}}
	var object Object
	if len(wrong) == 0 {
		object, wrong = s.object(f, w, tree, o, strict)
	}
	flaws := make([]flaw, 0, len(wrong))
	for _, p := range wrong {
		line := r.lineOf(p.line)
		switch at, held := w.places[p.path]; {
		case line > 0:
		case held:
			line = f.places[at].line
		case p.path != "":
			line = r.lineOf(lineOfPath(r.out.String(), p.path))
		}
		flaws = append(flaws, flaw{line: line, problem: p.text})
	}
	slices.SortStableFunc(flaws, func(a, b flaw) int { return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.problem, b.problem)) })
	return object, flaws
}

// object makes an object of a document.
func (s *Spec) object(f *file, w *filler, document map[string]any, o owner, strict bool) (Object, []problem) {
	tree, _ := w.fill(document, "").(map[string]any)
	if len(w.flaws) > 0 {
		return Object{}, w.flaws
	}
	gvk, wrong := head(tree, f.key, s.namespace, o.provisionID)
	if gvk.Empty() || tree["metadata"] == nil {
		return Object{}, wrong
	}
	known, err := isKnown(gvk)
	switch {
	case err != nil:
		return Object{}, append(wrong, problem{path: "apiVersion", text: err.Error()})
	case slices.Contains(clusterKinds, gvk.Kind) && known:
		return Object{}, append(wrong, problem{path: "kind", text: fmt.Sprintf("a %s is in no namespace, so it can not be one resource's", gvk.Kind)})
	}
	for _, p := range legalise(tree) {
		if strict {
			wrong = append(wrong, p)
		}
	}
	if known {
		typed, more, mistyped := strictly(tree, gvk)
		if mistyped && len(w.loose) > 0 && w.typed == nil {
			w.settle(document, func(tree any) bool {
				m, _ := tree.(map[string]any)
				_, _, mistyped := strictly(m, gvk)
				return !mistyped
			})
			return s.object(f, w, document, o, strict)
		}
		for _, p := range more {
			if !slices.ContainsFunc(wrong, func(told problem) bool { return told.path == p.path && p.path != "" }) {
				wrong = append(wrong, p)
			}
		}
		if len(wrong) == 0 {
			if err := prune(tree, typed); err != nil {
				return Object{}, []problem{{text: err.Error()}}
			}
		}
	}
	wrong = append(wrong, bodyProblems(tree)...)
	wrong = append(wrong, o.mark(tree)...)
	if len(wrong) > 0 {
		return Object{}, wrong
	}
	return Object{Unstructured: &unstructured.Unstructured{Object: tree}, Key: f.key, File: f.path, Known: known}, nil
}
