package provisioner

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// labelForm is what Kubernetes says of a label's value, in its own words.
var labelForm = regexp.MustCompile(`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`)

func TestLabelValue(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 63)
	tests := map[string]struct{ reason, text, want string }{
		"plain":          {"legal: kept", "acme", "acme"},
		"first":          {"has to be a letter or digit", "_@example.test", "example.test-5643250f7b"},
		"dash first":     {"has to be a letter or digit", "-dash-first", "dash-first-d5ae8cc691"},
		"dash last":      {"has to be a letter or digit", "dash-last-", "dash-last-7ab3f40a4f"},
		"longest":        {"legal: kept", long, long},
		"too long":       {"cut", strings.Repeat("b", 64), strings.Repeat("b", 52) + "-a0fab1377f"},
		"umlaut":         {"each character that may not stand there becomes a dash", "Ünïcode & Co", "n-code---Co-7af7a222fd"},
		"two words":      {"a space may not stand there", "two words", "two-words-a03f1d6116"},
		"slash":          {"a slash neither", "a/b", "a-b-c14cddc033"},
		"empty":          {"legal: kept", "", ""},
		"cut at the end": {"cut, one too long", strings.Repeat("c", 62) + "-x", strings.Repeat("c", 52) + "-90f7c1d76e"},
		"quotes":         {"what would end a text in YAML", `O'Brien "quoted"`, "O-Brien--quoted-7e3e1de35e"},
		"no letter":      {"nothing is left but what tells it apart", "日本支社", "25a0afe576"},
		"dot last":       {"has to be a letter or digit", "acme.", "acme-fb97486b12"},
		"upper case":     {"legal: kept, in its case", "ACME", "ACME"},
		"mixed case":     {"legal: kept, in its case", "aCmE", "aCmE"},
		"line":           {"a line break ends no value", "acme\n", "acme-fb5aaab08a"},
		"NUL":            {"nor does this", "a\x00b", "a-b-59b271ae1b"},
	}
	seen := map[string]string{}
	for name, tt := range tests {
		got := LabelValue(tt.text)
		require.Equal(t, tt.want, got, "%s: %s", name, tt.reason)
		require.Empty(t, seen[got], "%s has the value of another", name)
		seen[got] = name
	}
}

func FuzzLabelValue(f *testing.F) {
	for _, s := range []string{"", "acme", "-", ".", "a/b", "日本支社", strings.Repeat("x", 64), strings.Repeat("-", 70), "a\n", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := LabelValue(s)
		switch {
		case len(got) > 63 || !labelForm.MatchString(got) || strings.HasSuffix(got, "\n"):
			t.Fatalf("%q is not legal: %q", s, got)
		case got != LabelValue(s) || got != LabelValue(got):
			t.Fatalf("%q has more values than %q", s, got)
		case len(s) <= 63 && labelForm.MatchString(s) && !strings.HasSuffix(s, "\n") && got != s:
			t.Fatalf("%q is legal and became %q", s, got)
		}
	})
}
