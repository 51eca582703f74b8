package terminal_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
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

func TestColumns(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason, in string
		want       int
	}{
		"Plain":     {"a letter takes one", "Ünïcode", 7},
		"Combining": {"what combines takes none", "e\u0301a\u0308\u0304", 2},
		"Wide":      {"some letters take two", "日本", 4},
		"Full":      {"also Latin ones", "Ａ", 2},
		"Emoji":     {"and pictures", "🚀🙂", 4},
		"Variation": {"what chooses a form takes none", "❤\ufe0f", 1},
		"Hebrew":    {"whatever the direction", "שלום", 4},
		"Empty":     {"nothing takes nothing", "", 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, terminal.Columns(c.in), c.reason)
		})
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason, in string
		most       int
		want       string
	}{
		"Fits":      {"what fits stays", "日本", 4, "日本"},
		"Wide":      {"no letter is cut in two", "日本支社", 6, "日本…"},
		"Combining": {"what combines goes with its letter", "e\u0301e\u0301e\u0301", 2, "e\u0301…"},
		"None":      {"there is no room for anything", "ab", 0, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := terminal.Cut(c.in, c.most)
			require.Equal(t, c.want, got, c.reason)
			require.LessOrEqual(t, terminal.Columns(got), c.most)
		})
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"a", "bbbb", "bb c"}, terminal.Wrap("a bbbbbb c", 4), "a long word is broken")
	require.Equal(t, []string{"日本", "支社"}, terminal.Wrap("日本支社", 5))
	require.Equal(t, []string{""}, terminal.Wrap("", 5))
	require.Equal(t, []string{"ab", "日"}, terminal.Wrap("ab日", 0), "there is always room for a letter")
}

func TestTableAligns(t *testing.T) {
	t.Parallel()
	table := terminal.NewTable(terminal.Column{Head: "NAME"}, terminal.Column{Head: "N"})
	for _, name := range []string{"plain", "日本", "e\u0301", "🚀 x"} {
		table.Row(name, "1")
	}
	var b bytes.Buffer
	_, err := table.WriteTo(&b)
	require.NoError(t, err)
	require.Equal(t, "NAME   N\nplain  1\n日本   1\ne\u0301      1\n🚀 x   1\n", b.String())
}

// What a program reads is the same; what a terminal sees does nothing to it.
func TestCleanJSON(t *testing.T) {
	t.Parallel()
	const hostile = "\x1b[31m \x7f \u009b2J \u202e \u200d \ufeff \U000e0001 日本 e\u0301 🚀 <script> \" '"
	var raw bytes.Buffer
	e := json.NewEncoder(&raw)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	require.NoError(t, e.Encode(map[string]string{hostile: hostile}))
	clean := terminal.CleanJSON(raw.Bytes())
	for _, r := range string(clean) {
		require.True(t, r == '\n' || !unicode.IsControl(r) && !unicode.Is(unicode.Cf, r), "%q", r)
	}
	require.Contains(t, string(clean), "日本 e\u0301 🚀 <script>", "what is harmless stays readable")
	var back map[string]string
	require.NoError(t, json.Unmarshal(clean, &back))
	require.Equal(t, map[string]string{hostile: hostile}, back)
}

func TestIsTerminal(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	require.False(t, terminal.IsTerminal(f))
	require.False(t, terminal.IsTerminal(&bytes.Buffer{}))
}
