package terminal

import (
	"io"
	"strings"
)

// Fields are names and what they stand for, one a line, long texts wrapped. Empty ones are left out.
type Fields struct {
	Indent int
	lines  [][2]string
}

// Add adds a field.
func (f *Fields) Add(name, value string) {
	if value = Clean(value); value != "" {
		f.lines = append(f.lines, [2]string{name, value})
	}
}

// WriteTo writes the fields, the values under each other.
func (f *Fields) WriteTo(w io.Writer) (int64, error) {
	width := 0
	for _, l := range f.lines {
		width = max(width, len(l[0]))
	}
	margin := strings.Repeat(" ", f.Indent)
	var b strings.Builder
	for _, l := range f.lines {
		head := l[0] + strings.Repeat(" ", width-len(l[0])+gap)
		for _, part := range Wrap(l[1], Width-f.Indent-width-gap) {
			b.WriteString(margin + head + part + "\n")
			head = strings.Repeat(" ", len(head))
		}
	}
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}
