package terminal

import (
	"io"
	"strings"
)

// Width is how wide a table may be.
const Width = 100

const gap = 2

// A Column is one column of a table.
type Column struct {
	Head  string
	Right bool // numbers
	Least int  // the table may be narrowed by cutting this column down to so many columns of the screen; 0: never cut
}

// A Table is rows under heads. Widths follow from what is in it; where that is wider than Width, the widest of the columns
// that may be cut give way.
type Table struct {
	columns []Column
	rows    [][]string
}

// NewTable makes an empty table.
func NewTable(columns ...Column) *Table { return &Table{columns: columns} }

// Row adds one row, with a cell for each column. An empty cell is shown as a dash.
func (t *Table) Row(cells ...string) {
	row := make([]string, len(t.columns))
	for i := range row {
		row[i] = "-"
		if i < len(cells) && Clean(cells[i]) != "" {
			row[i] = Clean(cells[i])
		}
	}
	t.rows = append(t.rows, row)
}

// WriteTo writes the table: heads first, also when there are no rows.
func (t *Table) WriteTo(w io.Writer) (int64, error) {
	widths := t.widths()
	heads := make([]string, len(t.columns))
	for i, c := range t.columns {
		heads[i] = c.Head
	}
	var b strings.Builder
	for _, row := range append([][]string{heads}, t.rows...) {
		var line strings.Builder
		for i, cell := range row {
			cell = Cut(cell, widths[i])
			pad := strings.Repeat(" ", widths[i]-Columns(cell))
			if i > 0 {
				line.WriteString(strings.Repeat(" ", gap))
			}
			if t.columns[i].Right {
				line.WriteString(pad + cell)
			} else {
				line.WriteString(cell + pad)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}

func (t *Table) widths() []int {
	widths := make([]int, len(t.columns))
	total := gap * (len(t.columns) - 1)
	for i, c := range t.columns {
		widths[i] = Columns(c.Head)
		for _, row := range t.rows {
			widths[i] = max(widths[i], Columns(row[i]))
		}
		total += widths[i]
	}
	for total > Width {
		widest := -1
		for i, c := range t.columns {
			if c.Least > 0 && widths[i] > max(c.Least, Columns(c.Head)) && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break // nothing left to give
		}
		widths[widest]--
		total--
	}
	return widths
}
