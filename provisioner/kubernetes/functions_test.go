package kubernetes

import (
	"strings"
	"testing"

	"github.com/Masterminds/sprig/v3"
	"github.com/stretchr/testify/require"
)

func TestFunctions(t *testing.T) {
	t.Parallel()
	d := Data{Annotations: Annotations{"b": "2", "a": "1"}, Names: Names{"PVC": "p"}}
	for text, want := range map[string]string{
		`{{ index .Annotations "a" }}{{ index .Annotations "none" }}`:             "1",
		`{{ get .Annotations "a" }}{{ get .Annotations "none" }}`:                 "1",
		`{{ hasKey .Annotations "a" }} {{ hasKey .Annotations "none" }}`:          "true false",
		`{{ dig "none" "other" .Annotations }}`:                                   "other",
		`{{ keys .Annotations | join "," }} {{ values .Annotations | join "," }}`: "a,b 1,2",
		`{{ pick .Annotations "a" | toJson }}`:                                    `{"a":"1"}`,
		`{{ merge (dict "c" 3) .Annotations | toJson }}`:                          `{"a":"1","b":"2","c":3}`,
		`{{ "it's" | squote }}`:                                                   `'it''s'`,
		`{{ "two words" | labelValue }}`:                                          "two-words-4b4d5b7f2c",
		`{{ index .Names "PVC" }} {{ index (list 1 2) 1 }}`:                       "p 2",
	} {
		f, flaws := parseFile("k", "k.yaml", []byte(text))
		require.Empty(t, flaws)
		r, failed := f.execute(d, true)
		require.Nil(t, failed, text)
		if strings.Contains(text, "labelValue") {
			require.Regexp(t, `^two-words-[0-9a-f]{10}$`, r.out.String())
			continue
		}
		require.Equal(t, want, r.out.String(), text)
	}
	for text, want := range map[string]string{
		`{{ index (list 1) 1 }}`:             "position 1 of 1 is not there",
		`{{ index 1 1 }}`:                    "a int has no index",
		`{{ index (dict "a" nil) "a" "b" }}`: "index of nothing",
		`{{ hasKey 1 "a" }}`:                 "argument 1 is a int",
		`{{ keys 1 }}`:                       "a int has no keys",
	} {
		f, flaws := parseFile("k", "k.yaml", []byte(text))
		require.Empty(t, flaws)
		_, failed := f.execute(d, true)
		require.NotNil(t, failed, text)
		require.Contains(t, failed.problem, want)
	}
}

// What is refused is there in sprig: a name that is mistyped would refuse nothing.
func TestRefusedFunctions(t *testing.T) {
	t.Parallel()
	for name := range refused {
		require.Contains(t, sprig.TxtFuncMap(), name)
	}
}
