package defaults

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the table in the docs")

const page = "../../docs/architecture.md"

// TestTable compares the table of docs/architecture.md with the constants.
func TestTable(t *testing.T) {
	t.Parallel()
	const begin, end = "<!-- defaults: begin -->\n", "<!-- defaults: end -->"
	raw, err := os.ReadFile(page)
	require.NoError(t, err)
	head, rest, found := strings.Cut(string(raw), begin)
	require.True(t, found, "the page has no mark %q", begin)
	got, tail, found := strings.Cut(rest, end)
	require.True(t, found, "the page has no mark %q", end)
	want := table(t)
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(head+begin+want+end+tail), 0o600))
		return
	}
	require.Empty(t, cmp.Diff(want, got), "run go test ./internal/defaults -update")
}

func table(t *testing.T) string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "defaults.go", nil, parser.ParseComments)
	require.NoError(t, err)
	var b strings.Builder
	for _, d := range file.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		title, _, _ := strings.Cut(strings.ReplaceAll(group.Doc.Text(), "\n", " "), ".")
		fmt.Fprintf(&b, "\n%s:\n\n| number | value | what it is |\n|---|---|---|\n", title)
		for _, s := range group.Specs {
			v := s.(*ast.ValueSpec)
			require.Len(t, v.Names, 1)
			what := strings.Join(strings.Fields(v.Comment.Text()), " ")
			require.NotEmpty(t, what, "%s has no comment that says what it is", v.Names[0].Name)
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", v.Names[0].Name, value(t, v.Values[0]), what)
		}
	}
	return b.String() + "\n"
}

// value shows a constant as a person would write it.
func value(t *testing.T, e ast.Expr) string {
	t.Helper()
	units := map[string]string{"Millisecond": "ms", "Second": "s", "Minute": "min", "Hour": "h"}
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Value
	case *ast.SelectorExpr:
		return "1 " + units[e.Sel.Name]
	case *ast.BinaryExpr:
		if days, ok := e.X.(*ast.BinaryExpr); ok {
			require.Equal(t, "24", days.Y.(*ast.BasicLit).Value)
			return days.X.(*ast.BasicLit).Value + " days"
		}
		if s, ok := e.Y.(*ast.SelectorExpr); ok && e.Op == token.MUL {
			return e.X.(*ast.BasicLit).Value + " " + units[s.Sel.Name]
		}
		if e.Op == token.SHL {
			return e.X.(*ast.BasicLit).Value + "<<" + e.Y.(*ast.BasicLit).Value
		}
	}
	require.Fail(t, "a constant of an unknown form")
	return ""
}
