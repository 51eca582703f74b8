package provisioner

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestScrub(t *testing.T) {
	t.Parallel()
	var read Secret
	require.NoError(t, read.UnmarshalJSON([]byte(`"tulip-7731"`)))
	_ = NewSecret("tulip-7731-and-more")
	for name, tc := range map[string]struct{ reason, text, want string }{
		"value that was read":  {"a library quotes what it was given", "dial tulip-7731: refused", "dial ***: refused"},
		"longest first":        {"one secret may begin another", "x tulip-7731-and-more y", "x *** y"},
		"password in a URL":    {"never read as a Secret", "get http://bob:hunter2@db:80/x: EOF", "get http://bob:***@db:80/x: EOF"},
		"bearer token":         {"in a quoted header", "sent Authorization: Bearer abcdef123456.x", "sent Authorization: Bearer ***"},
		"key and value":        {"connection strings", "host=db password=hunter2 user=bob", "host=db password=*** user=bob"},
		"quoted":               {"JSON in an answer", `{"token": "abc def", "n": 1}`, `{"token": ***, "n": 1}`},
		"nothing to hide":      {"ordinary text stays", "http://127.0.0.1:9001: ping answered 404", "http://127.0.0.1:9001: ping answered 404"},
		"a word of it is fine": {"no value follows", "the token expired", "the token expired"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, Scrub(tc.text), tc.reason)
		})
	}
	require.NotPanics(t, func() { Scrub(strings.Repeat("password=", 1<<17)) })
}
