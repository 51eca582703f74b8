package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"berth/internal/terminal"
)

// output is how a result is written.
type output struct {
	Output string `short:"o" name:"output" placeholder:"FORMAT" default:"table" enum:"table,json" help:"How the result is written: table or json. A table if not given."`
}

// write writes a result: the value as one JSON document, or the table made of it.
func (o output) write(w io.Writer, v any, table func() io.WriterTo) error {
	if o.Output != "json" {
		if _, err := table().WriteTo(w); err != nil {
			return fmt.Errorf("write the result: %w", err)
		}
		return nil
	}
	return writeJSON(w, v)
}

func writeJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("encode the result: %w", err)
	}
	if _, err := w.Write(terminal.CleanJSON(b.Bytes())); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// stamp shows a time in a table; empty for none.
func stamp(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// several are parts of a result that are written one after the other.
type several []io.WriterTo

// WriteTo writes all.
func (s several) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for _, part := range s {
		n, err := part.WriteTo(w)
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// text is a part that is written as it stands.
type text string

// WriteTo writes it.
func (t text) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, string(t))
	return int64(n), err
}
