package kubernetes

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"text/template"
)

// A file is one template.
type file struct {
	key    string // in template_paths
	path   string // as it is written there
	source string // without a byte order mark, with plain line ends
	parsed *template.Template
	ready  sync.Pool // of *prepared
	places []place

	jsonIn   bool     // it reads JSON, which may come from anywhere
	literals []string // texts that stand beside .Annotations: the annotations that it may ask for
}

// A flaw is one thing that is wrong with a template or with what it renders to.
type flaw struct {
	line    int // of the template, 0 if unknown
	problem string
	remedy  string
}

// rootName is what text/template calls the template in its errors.
const rootName = "template"

// templateError matches the errors of text/template: the line, and what is wrong.
var templateError = regexp.MustCompile(`(?s)\Atemplate: ` + rootName + `:(\d+)(?::\d+)?: (?:executing "[^"]*" at )?(.*)\z`)

// parseFile reads a template. What is wrong with it is told as far as it can be read.
func parseFile(key, path string, raw []byte) (*file, []flaw) {
	source := strings.TrimPrefix(string(raw), "\ufeff")
	source = strings.ReplaceAll(source, "\r\n", "\n")
	f := &file{key: key, path: path, source: source}
	parsed, err := template.New(rootName).Option("missingkey=error").Funcs(functions).Parse(source)
	if err != nil {
		return nil, []flaw{templateFlaw(err)}
	}
	f.parsed = parsed
	flaws := f.findPlaces()
	if len(flaws) > 0 {
		return nil, flaws
	}
	return f, nil
}

// templateFlaw makes a flaw of an error of text/template.
func templateFlaw(err error) flaw {
	text := strings.Join(strings.Fields(err.Error()), " ")
	m := templateError.FindStringSubmatch(text)
	if m == nil {
		return flaw{problem: text}
	}
	line, _ := strconv.Atoi(m[1])
	f := flaw{line: line, problem: m[2]}
	if strings.Contains(m[2], ".Annotations.") && strings.Contains(m[2], "map has no entry") {
		f.remedy = `an annotation may be missing: write index .Annotations "KEY", which is empty then`
	}
	return f
}

// lineAt is the line of a byte of the template.
func (f *file) lineAt(at int) int { return 1 + strings.Count(f.source[:min(at, len(f.source))], "\n") }
