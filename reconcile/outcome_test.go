package reconcile

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"berth/internal/defaults"
	"berth/provisioner"
)

func TestClean(t *testing.T) {
	t.Parallel()
	_ = provisioner.NewSecret("correct-horse-battery")
	for name, c := range map[string]struct{ reason, in, want string }{
		"plain":                 {"left alone", "no route to host", "no route to host"},
		"NUL":                   {"Postgres can not hold it", "a\x00b", "ab"},
		"invalid":               {"nor this", "a\xff\xfeb", "a\uFFFDb"},
		"lines":                 {"one line", "a\nb\r\nc\rd", "a b c d"},
		"secret":                {"of a spec", "login with correct-horse-battery failed", "login with *** failed"},
		"secret cut by NUL":     {"which is taken out before it is looked for", "login with correct-horse\x00-battery failed", "login with *** failed"},
		"password of a URL":     {"quoted by many libraries", "dial postgres://berth:hunter22@db:5432/x: refused", "dial postgres://berth:***@db:5432/x: refused"},
		"password in key=value": {"libpq's way", "host=db password=hunter22 sslmode=off", "host=db password=*** sslmode=off"},
	} {
		require.Equal(t, c.want, clean(c.in), "%s: %s", name, c.reason)
	}
	long := strings.Repeat("x", defaults.MaxMessage-3) + "üüü" + strings.Repeat("y", 1<<20)
	got := clean(long)
	require.LessOrEqual(t, len(got), defaults.MaxMessage)
	require.True(t, utf8.ValidString(got))
	require.True(t, strings.HasPrefix(long, got))
	// Half of a secret at the end would be seen.
	got = clean(strings.Repeat("x", defaults.MaxMessage-10) + "correct-horse-battery")
	require.NotContains(t, got, "correct")
}

func TestUnstorable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		raw, want string
	}{
		"object":              {`{"a": [1, {"b": "c"}]}`, ""},
		"empty":               {`{}`, ""},
		"words like a NUL":    {`{"a": "\\u0000"}`, ""},
		"list":                {`[]`, "it is not one JSON object"},
		"null":                {`null`, "it is not one JSON object"},
		"text":                {`"x"`, "it is not one JSON object"},
		"no JSON":             {`{`, "it is not one JSON object"},
		"two":                 {`{} {}`, "it is not one JSON object"},
		"NUL":                 {`{"a": "b\u0000"}`, "it holds a NUL character"},
		"NUL deep":            {`{"a": [{"b": ["\u0000"]}]}`, "it holds a NUL character"},
		"NUL in a key":        {`{"\u0000": 1}`, "it holds a NUL character"},
		"raw NUL":             {"{\"a\": \"\x00\"}", "it is not one JSON object"},
		"invalid UTF-8":       {"{\"a\": \"\xff\"}", "it is not valid UTF-8"},
		"as large as can be":  {`{"a":"` + strings.Repeat("x", defaults.MaxNotes-8) + `"}`, ""},
		"larger than can be":  {`{"a":"` + strings.Repeat("x", defaults.MaxNotes-7) + `"}`, "1048577 bytes are more than 1048576"},
		"deeper than can be":  {strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000), "it is not one JSON object"},
		"large number, kept":  {`{"a": 12345678901234567890123}`, ""},
		"duplicate keys, one": {`{"a": 1, "a": 2}`, ""},
	} {
		require.Equal(t, c.want, unstorable(json.RawMessage(c.raw)), name)
	}
}

// What a backend does to what it got changes nothing but what it returns.
func TestResourceIsACopy(t *testing.T) {
	t.Parallel()
	p := &place{args: json.RawMessage(`{"a":1}`), state: json.RawMessage(`{"b":2}`), config: json.RawMessage(`{"c":3}`)}
	r := p.resource()
	r.Args[1], r.State[1], r.Config[1] = 'x', 'x', 'x'
	require.JSONEq(t, `{"a":1}`, string(p.args))
	require.JSONEq(t, `{"b":2}`, string(p.state))
	require.JSONEq(t, `{"c":3}`, string(p.config))
}

// hollow is an error whose methods fail.
type hollow struct{ text *string }

func (h *hollow) Error() string { return *h.text }

// An error is the backend's code too.
func TestJudgeOfAnErrorThatPanics(t *testing.T) {
	t.Parallel()
	e := &Engine{log: quiet(), life: &life{now: time.Now}}
	b := newBackend("a", &scripted{})
	for name, err := range map[string]error{"typed nil": (*hollow)(nil), "panics": errFunc(func() string { panic("again") })} {
		o := e.judge(b, &place{desired: provisioner.PhaseReady}, provisioner.Observation{Phase: provisioner.PhaseReady}, err)
		require.True(t, o.failed, name)
		require.Equal(t, "Panic", o.reason, name)
		require.Equal(t, provisioner.PhaseUnknown, o.seen, name)
	}
}

type errFunc func() string

func (f errFunc) Error() string { return f() }
