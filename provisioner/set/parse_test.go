package set_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"berth/provisioner"
	"berth/provisioner/provisionertest"
	"berth/provisioner/set"
)

// closer is a provisioner that counts how many of its kind are open.
type closer struct {
	*provisionertest.Fake
	open *atomic.Int64
	err  error
}

func (c closer) Close() error {
	c.open.Add(-1)
	return c.err
}

// registry makes fakes of what it reads as the real types do.
func registry(open *atomic.Int64) provisioner.Registry {
	opened := func(name string, types ...provisioner.ResourceType) closer {
		open.Add(1)
		return closer{Fake: provisionertest.NewFake(name, types...), open: open}
	}
	return provisioner.Registry{
		"static": func(name string, raw json.RawMessage, _ provisioner.Options) (provisioner.Provisioner, error) {
			s := provisioner.ReadSpec(raw)
			for _, r := range s.Objects("runtimes", 1) {
				r.String("host")
				r.Int("slots", "number of slots", 1, math.MaxInt32)
				r.StringOr("data_dir", "")
				r.StringOr("audience_url", "")
			}
			if err := s.Err(); err != nil {
				return nil, fmt.Errorf("static: %w", err)
			}
			return opened(name, provisioner.Runtime), nil
		},
		"kubernetes": func(name string, raw json.RawMessage, _ provisioner.Options) (provisioner.Provisioner, error) {
			s := provisioner.ReadSpec(raw)
			s.Int("timeout_seconds", "number of seconds", 1, 3600)
			s.StringOr("data_dir", "")
			s.StringOr("kubeconfig_path", "")
			for _, key := range []string{"host", "namespace", "image"} {
				s.String(key)
			}
			templates := s.Object("template_paths")
			for _, key := range []string{"http_ingress", "grpc_ingress", "service", "deployment", "pvc"} {
				templates.String(key)
			}
			if err := s.Err(); err != nil {
				return nil, err
			}
			return opened(name, provisioner.Runtime), nil
		},
		"database": func(name string, raw json.RawMessage, _ provisioner.Options) (provisioner.Provisioner, error) {
			s := provisioner.ReadSpec(raw)
			s.SecretOr("password", provisioner.Secret{})
			s.StringOr("url", "")
			return opened(name, "database"), s.Err()
		},
		"panics": func(string, json.RawMessage, provisioner.Options) (provisioner.Provisioner, error) { panic("hunter2") },
		"bug": func(string, json.RawMessage, provisioner.Options) (provisioner.Provisioner, error) {
			return nil, fmt.Errorf("%d", []int{}[len(os.Args)])
		},
		"nothing": func(string, json.RawMessage, provisioner.Options) (provisioner.Provisioner, error) { return nil, nil },
		"plain": func(string, json.RawMessage, provisioner.Options) (provisioner.Provisioner, error) {
			return nil, errors.Join(errors.New("read templates:\nno such file"), provisioner.Fault{Path: "a.b", Problem: "missing"})
		},
	}
}

func lines(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

func TestParseAcceptsTheExampleAsPasted(t *testing.T) {
	t.Parallel()

	var open atomic.Int64
	example := mustRead(t, "readme.json")
	for name, text := range map[string]string{
		"as it is":            example,
		"no end of line":      strings.TrimRight(example, "\n"),
		"lines of Windows":    strings.ReplaceAll(example, "\n", "\r\n"),
		"a byte order mark":   "\ufeff" + example,
		"trailing commas":     strings.Replace(example, `"http://localhost:8081"   //`, `"http://localhost:8081",  //`, 1),
		"a comment at an end": strings.TrimRight(example, "\n") + " // the end",
	} {
		s, err := set.Parse(text, "static-example", registry(&open), provisioner.Options{})
		require.NoError(t, err, name)
		require.Equal(t, []string{"kubernetes-example", "static-example"}, s.Names())
		require.Equal(t, "static-example", s.Default())
		p, ok := s.Get("static-example")
		require.True(t, ok)
		require.True(t, p.Info().Supports(provisioner.Runtime))
		_, ok = s.Get("static")
		require.False(t, ok)
		require.Equal(t, "kubernetes", s.All()[0].Type)
		require.EqualValues(t, 2, open.Load())
		require.NoError(t, s.Close())
		require.NoError(t, s.Close())
		require.Zero(t, open.Load(), "closed once")
	}
}

func TestParseWithoutTheTypeSaysSo(t *testing.T) {
	t.Parallel()

	var open atomic.Int64
	reg := provisioner.Registry{"static": registry(&open)["static"]}
	_, err := set.Parse(mustRead(t, "readme.json"), "static-example", reg, provisioner.Options{})
	require.Equal(t, []string{`kubernetes-example.type: line 21: unknown type "kubernetes": known: static`}, lines(err))
	require.ErrorIs(t, err, provisioner.ErrInvalid)
	require.Zero(t, open.Load(), "what was made is closed")
}

func TestParseReportsEveryFault(t *testing.T) {
	t.Parallel()

	const whole = ": write a whole number from 1 to 2147483647"
	tests := map[string]struct {
		reason, text, def string
		want              []string
	}{
		"numbers": {
			reason: "what Go's decoder takes without a word, and the rest, in one report",
			text:   mustRead(t, "numbers.json"), def: "s",
			want: []string{
				"s.spec.runtimes[0].slots: line 6: 2.0 is not a number of slots: write 2",
				"s.spec.runtimes[1].slots: line 7: 1e1 is not a number of slots: write 10",
				`s.spec.runtimes[2].slots: line 8: "2" is text and not a number of slots: write 2, without quotes`,
				"s.spec.runtimes[3].slots: line 9: 99999999999999999999 is not a number of slots" + whole,
				"s.spec.runtimes[4].slots: line 10: written twice: the first is on line 10; keep one of them",
				"s.spec.runtimes[5].SLOTS: line 11: unknown key: did you mean slots",
				"s.spec.runtimes[6].slots: line 12: -1 is not a number of slots" + whole,
				"s.spec.runtimes[7].slots: line 13: 0 is not a number of slots" + whole,
				"s.spec.runtimes[8].slots: line 14: 2.5 is not a number of slots" + whole,
				"s.spec.runtimes[9].slots: line 15: null is not a number of slots" + whole,
				"s: line 21: written twice: the first is on line 2; rename or remove one",
				"s.spec.runtimes: line 21: has 0 entries: write at least 1",
			},
		},
		"everything around the specs": {
			reason: "one report, in the order of the text, the default last",
			text: `{ // a comment
"Up Per": {"type": "static", "spec": {"runtimes": [{"host": "a", "slots": 1}]}},
"no-type": {"spec": {}},
"no-spec": {"type": "static"},
"other": {"type": "static", "spec": [], "Spec": {}, "notes": "hunter2"},
"case": {"Type": "static", "spec": {}},
"none": null,
"kind": {"type": 5, "spec": 6},
"unknown": {"type": "statik",
  "spec": {"runtimes": 1}},
"p": {"type": "panics", "spec": {}}, "q": {"type": "bug", "spec": {}}, "r": {"type": "nothing", "spec": {}},
"plain": {"type": "plain", "spec": {
  "a": {}
}},
"twice": {"type": "static", "type": "kubernetes", "spec": {"runtimes": [{"host": "a", "slots": 0}]}},
"a-name-that-is-longer-than-forty-eight-characters": {"type": "static", "spec": {"runtimes": [{"host": "a", "slots": 1}]}}
/* the end */ }`,
			def: "missing",
			want: []string{
				`["Up Per"]: line 2: "Up Per" is not the name of a provisioner: write lower-case letters and digits, in words joined by single dashes, at most 48 characters`,
				"no-type.type: line 3: missing: write one of bug, database, kubernetes, nothing, panics, plain, static",
				"no-spec.spec: line 4: missing: write an object, { ... }",
				"other.spec: line 5: not an object: write an object, { ... }",
				"other.Spec: line 5: unknown key: did you mean spec",
				"other.notes: line 5: unknown key: known are type and spec",
				"case.Type: line 6: unknown key: did you mean type",
				`none: line 7: not an object: write {"type": "TYPE", "spec": { ... }}`,
				"kind.type: line 8: not the name of a type: write one of bug, database, kubernetes, nothing, panics, plain, static",
				"kind.spec: line 8: not an object: write an object, { ... }",
				`unknown.type: line 9: unknown type "statik": known: bug, database, kubernetes, nothing, panics, plain, static`,
				"p.spec: line 11: the program that reads this spec has a bug and panicked",
				"q.spec: line 11: the program that reads this spec has a bug and panicked: runtime error: index out of range",
				"r.spec: line 11: the program that reads this spec has a bug and made nothing of it",
				"plain.spec: line 12: read templates: no such file",
				"plain.spec.a.b: line 13: missing",
				"twice.type: line 15: written twice: the first is on line 15; keep one of them",
				"twice.spec.runtimes[0].slots: line 15: 0 is not a number of slots" + whole,
				`a-name-that-is-longer-than-forty-eight-characters: line 16: "a-name-that-is-longer-than-forty-eight-characters" is not the name of a provisioner: write lower-case letters and digits, in words joined by single dashes, at most 48 characters`,
				`RILL_ADMIN_DEFAULT_PROVISIONER: "missing" is not in the set: write one of Up Per, a-name-that-is-longer-than-forty-eight-characters, case, kind, no-spec, no-type, none, other, p, plain, q, r, twice, unknown`,
			},
		},
		"nothing":      {"unset", "", "", []string{`RILL_ADMIN_PROVISIONER_SET_JSON: no provisioner is configured: write {"NAME": {"type": "TYPE", "spec": { ... }}}`, "RILL_ADMIN_DEFAULT_PROVISIONER: no default provisioner is named: write the name of a provisioner of the set"}},
		"blank":        {"set to nothing", " \n", "x", []string{`RILL_ADMIN_PROVISIONER_SET_JSON: no provisioner is configured: write {"NAME": {"type": "TYPE", "spec": { ... }}}`}},
		"no entry":     {"nothing to work with", "\n{}", "x", []string{`RILL_ADMIN_PROVISIONER_SET_JSON: line 2: no provisioner is configured: write {"NAME": {"type": "TYPE", "spec": { ... }}}`}},
		"list":         {"another shape", "[1]", "x", []string{`RILL_ADMIN_PROVISIONER_SET_JSON: line 1: not an object: write {"NAME": {"type": "TYPE", "spec": { ... }}}`}},
		"comma":        {"a person forgot it", "{\n\"a\": 1\n\"b\": 2}", "x", []string{"RILL_ADMIN_PROVISIONER_SET_JSON: line 3: not JSON at column 1: invalid character '\"' after object value (expecting ',' or '}'): look before it for a comma, quote or bracket that is missing"}},
		"literal":      {"the text may be a secret", "{\n\"a\": hunter2}", "x", []string{"RILL_ADMIN_PROVISIONER_SET_JSON: line 2: not JSON at column 6: text that is neither a string in double quotes nor a number, true, false or null: look before it for a comma, quote or bracket that is missing"}},
		"cut off":      {"half of it", "{\n\"a\": \"hunter2", "x", []string{"RILL_ADMIN_PROVISIONER_SET_JSON: line 2: not JSON at column 1: parsing string: the text ends too early: look before it for a comma, quote or bracket that is missing"}},
		"file":         {"its name is not its text", "/etc/berth/set.json", "x", []string{"RILL_ADMIN_PROVISIONER_SET_JSON: line 1: not JSON at column 1: invalid character '/' at start of value: write the text itself, or name its file in RILL_ADMIN_PROVISIONER_SET_JSON_FILE"}},
		"two":          {"one would be lost", "{} {}", "x", []string{"RILL_ADMIN_PROVISIONER_SET_JSON: line 1: not JSON at column 4: invalid character '{' after top-level value: look before it for a comma, quote or bracket that is missing"}},
		"not UTF-8":    {"would be changed in silence", "{\n\"a\xff\": 1}", "x", []string{"RILL_ADMIN_PROVISIONER_SET_JSON: line 2: not UTF-8: save it as UTF-8"}},
		"deep":         {"bounded", strings.Repeat("\n[", 1<<18), "x", []string{"RILL_ADMIN_PROVISIONER_SET_JSON: line 66: nests deeper than 64 levels"}},
		"huge":         {"bounded", strings.Repeat(" ", 1<<20) + "{}", "x", []string{"RILL_ADMIN_PROVISIONER_SET_JSON: is longer than 1048576 bytes"}},
		"no default":   {"whoever names none gets one", `{"d": {"type": "database", "spec": {}}}`, "", []string{"RILL_ADMIN_DEFAULT_PROVISIONER: no default provisioner is named: write one of d"}},
		"wrong type":   {"it could never make a runtime", `{"d": {"type": "database", "spec": {}}}`, "d", []string{`RILL_ADMIN_DEFAULT_PROVISIONER: "d" does not make resources of type runtime: name one that does`}},
		"faulty entry": {"once is enough", `{"d": {"type": "x", "spec": {}}}`, "d", []string{`d.type: line 1: unknown type "x": known: bug, database, kubernetes, nothing, panics, plain, static`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var open atomic.Int64
			s, err := set.Parse(tt.text, tt.def, registry(&open), provisioner.Options{})
			require.Nil(t, s)
			got := lines(err)
			for i := range got { // the length of a list of the machine that runs this
				if at := strings.Index(got[i], "index out of range"); at >= 0 {
					got[i] = got[i][:at] + "index out of range"
				}
			}
			require.Empty(t, cmp.Diff(tt.want, got), tt.reason)
			require.NotContains(t, err.Error(), "hunter2")
			require.Zero(t, open.Load(), "what was made is closed")
		})
	}
}

func TestParseBoundsItsReport(t *testing.T) {
	t.Parallel()

	var b strings.Builder
	b.WriteString(`{"s": {"type": "static", "spec": {"runtimes": [`)
	b.WriteString(strings.Repeat(`{"host": "a", "slots": 0},`, 2000))
	b.WriteString(`]`)
	for i := range 5000 {
		fmt.Fprintf(&b, `, "key%d": 1`, i)
	}
	b.WriteString(`}}}`)
	var open atomic.Int64
	_, err := set.Parse(b.String(), "s", registry(&open), provisioner.Options{})
	var faults provisioner.Faults
	require.ErrorAs(t, err, &faults)
	require.Len(t, faults, 501)
	require.Equal(t, "RILL_ADMIN_PROVISIONER_SET_JSON: 6500 more faults", faults[500].Error())
}

func TestFaultsHaveColumns(t *testing.T) {
	t.Parallel()

	var open atomic.Int64
	_, err := set.Parse(`{"s": {"type": "static", "spec": {"runtimes": [{"host": "a", "slots": 0}]}}}`, "s", registry(&open), provisioner.Options{})
	var faults provisioner.Faults
	require.ErrorAs(t, err, &faults)
	require.Len(t, faults, 1)
	require.Equal(t, []int{1, 62}, []int{faults[0].Line, faults[0].Column})
}
