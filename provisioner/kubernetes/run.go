package kubernetes

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"text/template"
)

// maxOutput is how long what a template renders to may be. A cluster takes 1.5 MiB.
const maxOutput = 1 << 20

var (
	errLong  = fmt.Errorf("renders to more than %d bytes", maxOutput)
	errNoVal = errors.New("comes to no value")
)

// A run is a template executed once.
type run struct {
	file  *file
	plain bool // text is printed as it is
	out   bytes.Buffer
	marks []mark
	held  []value
}

// A prepared template prints through the run that it is set to. To make one copies a few hundred functions, so they are kept.
type prepared struct {
	template *template.Template
	run      *run
}

// A mark says which place printed from a byte of the output on.
type mark struct{ at, place int }

// A value is text that a token stands for.
type value struct {
	text  string
	place int
}

// Tokens are letters and digits, so they are a part of whatever scalar they stand in, in every style of YAML. All have one length,
// so that none is the beginning of another.
const tokenForm = "zqx%07dxqz"

var token = regexp.MustCompile(`zqx[0-9]{7}xqz`)

// execute runs the template. plain prints text as it is, and not a token for it.
func (f *file) execute(d Data, plain bool) (*run, *flaw) {
	p, ok := f.ready.Get().(*prepared)
	if !ok {
		clone, err := f.parsed.Clone()
		if err != nil {
			return nil, &flaw{problem: err.Error()}
		}
		p = &prepared{}
		p.template = clone.Funcs(template.FuncMap{
			outName:  func(at int, v any) (string, error) { return p.run.print(at, v) },
			markName: func(at int) string { return p.run.mark(at) },
		})
	}
	defer f.ready.Put(p)
	r := &run{file: f, plain: plain}
	p.run = r
	if err := p.template.Execute(r, d); err != nil {
		if errors.Is(err, errLong) {
			return nil, &flaw{line: r.line(r.out.Len()), problem: errLong.Error()}
		}
		failed := templateFlaw(err)
		return nil, &failed
	}
	return r, nil
}

// Write takes what the template prints.
func (r *run) Write(p []byte) (int, error) {
	if r.out.Len()+len(p) > maxOutput {
		return 0, errLong
	}
	return r.out.Write(p)
}

// mark notes that a piece of the template's own text follows.
func (r *run) mark(at int) string {
	r.marks = append(r.marks, mark{r.out.Len(), at})
	return ""
}

// print is what an action prints.
func (r *run) print(at int, v any) (string, error) {
	r.mark(at)
	p := r.file.places[at]
	text, isText, err := printed(v)
	switch {
	case err != nil:
		return "", err
	case r.plain || !isText || p.from == fromConstants:
		return text, nil
	case p.from == fromBerth && !word.MatchString(text):
		// Of ours, and more than a word: quoted, or meant to be YAML.
		return text, nil
	}
	if len(r.held) > 1e6 {
		return "", errLong
	}
	name := fmt.Sprintf(tokenForm, len(r.held))
	r.held = append(r.held, value{text, at})
	if p.trim == 0 {
		return name, nil
	}
	body := strings.TrimLeft(text, " \n")
	return text[:len(text)-len(body)] + name, nil // where it is indented to is part of the template
}

// word matches text that is one scalar wherever it stands, whose type is all that YAML could get wrong.
var word = regexp.MustCompile(`\A[A-Za-z0-9](?:[A-Za-z0-9._/:@+-]*[A-Za-z0-9])?\z`)

// printed is what text/template would print of a value, and whether it is text.
func printed(v any) (text string, isText bool, err error) {
	r := reflect.ValueOf(v)
	for r.Kind() == reflect.Pointer && !r.IsNil() {
		r = r.Elem()
	}
	switch r.Kind() {
	case reflect.Invalid:
		return "", false, errNoVal
	case reflect.Chan, reflect.Func, reflect.Pointer:
		return "", false, fmt.Errorf("comes to a %T, which can not be printed", v)
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		return fmt.Sprint(r.Interface()), false, nil
	}
	return fmt.Sprint(v), true, nil
}

// line is the line of the template that printed a byte of the output.
func (r *run) line(at int) int {
	i := sort.Search(len(r.marks), func(i int) bool { return r.marks[i].at > at }) - 1
	if i < 0 {
		return 1
	}
	p := r.file.places[r.marks[i].place]
	if p.text != "" {
		return p.line
	}
	out := r.out.Bytes()
	return p.line + bytes.Count(out[r.marks[i].at:min(at, len(out))], []byte("\n"))
}

// lineOf is the line of the template that printed a line of the output, both counted from 1.
func (r *run) lineOf(line int) int {
	if line < 1 {
		return 0
	}
	at := 0
	out := r.out.Bytes()
	for range line - 1 {
		next := bytes.IndexByte(out[at:], '\n')
		if next < 0 {
			break
		}
		at += next + 1
	}
	// What begins the line may be the blank before an action; what is wrong is more likely in the text after it.
	for at < len(out)-1 && (out[at] == ' ' || out[at] == '\t') {
		at++
	}
	return r.line(at)
}

// tokens returns the values that text holds tokens of.
func (r *run) tokens(text string) []value {
	var found []value
	for _, t := range token.FindAllString(text, -1) {
		if n, err := strconv.Atoi(strings.Trim(t, "zqx")); err == nil && n < len(r.held) {
			found = append(found, r.held[n])
		}
	}
	return found
}
