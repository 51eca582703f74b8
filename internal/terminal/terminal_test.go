package terminal_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"berth/internal/terminal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestClean(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ reason, in, want string }{
		"Plain":     {"what is harmless stays", "Ünïcode & 日本", "Ünïcode & 日本"},
		"Lines":     {"a table has one line a row", "a\nb\r\n\tc", "a b c"},
		"Escape":    {"nobody but us colours the screen", "\x1b[31mred\x1b[0m", "[31mred [0m"},
		"Direction": {"text is not turned around", "a\u202eb", "a?b"},
		"Broken":    {"what is no UTF-8 is shown as such", "a\xffb", "a?b"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, terminal.Clean(c.in)); diff != "" {
				t.Errorf("%s: %s", c.reason, diff)
			}
		})
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	table := terminal.NewTable(terminal.Column{Head: "NAME"}, terminal.Column{Head: "N", Right: true}, terminal.Column{Head: "WHY", Least: 10})
	table.Row("a", "1", "short")
	table.Row("long-name", "12345", "")
	var b bytes.Buffer
	_, err := table.WriteTo(&b)
	require.NoError(t, err)
	want := "NAME           N  WHY\na              1  short\nlong-name  12345  -\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

func TestTableFits(t *testing.T) {
	t.Parallel()
	table := terminal.NewTable(terminal.Column{Head: "ID"}, terminal.Column{Head: "PROJECT", Least: 12}, terminal.Column{Head: "WHY", Least: 10})
	table.Row(strings.Repeat("i", 36), strings.Repeat("ü", 127), strings.Repeat("w", 4096))
	var b bytes.Buffer
	_, err := table.WriteTo(&b)
	require.NoError(t, err)
	for line := range strings.Lines(b.String()) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), terminal.Width)
	}
	require.Contains(t, b.String(), strings.Repeat("i", 36)+" ", "what is not to be cut is whole")
	require.Contains(t, b.String(), "…")
}

func TestFields(t *testing.T) {
	t.Parallel()
	f := &terminal.Fields{Indent: 2}
	f.Add("state", "pending")
	f.Add("reason", "")
	f.Add("message", strings.Repeat("word ", 30))
	var b bytes.Buffer
	_, err := f.WriteTo(&b)
	require.NoError(t, err)
	words := func(n int) string { return strings.TrimSuffix(strings.Repeat("word ", n), " ") }
	want := "  state    pending\n  message  " + words(18) + "\n           " + words(12) + "\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

func TestIsTerminal(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	require.False(t, terminal.IsTerminal(f))
	require.False(t, terminal.IsTerminal(&bytes.Buffer{}))
}
