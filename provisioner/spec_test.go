package provisioner_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"berth/provisioner"
)

func lines(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

func TestSpecReadsEveryKind(t *testing.T) {
	t.Parallel()

	s := provisioner.ReadSpec(json.RawMessage(`{
		"name": "n", "empty": "", "mode": "pack", "on": true, "n": 9007199254740993, "wait": "1m30s", "key": "hunter2",
		"slot": {"cpu": 2}, "runtimes": [{"host": "a"}, {"host": "b"}], "zones": ["x", "y"]}`))

	require.Equal(t, "n", s.String("name"))
	require.Empty(t, s.StringOr("empty", "x"))
	require.Equal(t, "fallback", s.StringOr("none", "fallback"))
	require.Equal(t, "pack", s.OneOf("mode", "spread", "spread", "pack"))
	require.Equal(t, "spread", s.OneOf("mode2", "spread", "spread", "pack"))
	require.True(t, s.Bool("on"))
	require.True(t, s.BoolOr("off", true))
	require.EqualValues(t, 9007199254740993, s.Int("n", "number", 0, math.MaxInt64))
	require.EqualValues(t, 7, s.IntOr("m", "number", 0, 10, 7))
	require.Equal(t, 90*time.Second, s.Duration("wait", time.Second, time.Hour))
	require.Equal(t, time.Minute, s.DurationOr("wait2", time.Second, time.Hour, time.Minute))
	require.Equal(t, "hunter2", s.Secret("key").Reveal())
	require.Equal(t, "x", s.SecretOr("key2", provisioner.NewSecret("x")).Reveal())
	require.True(t, s.Has("slot"))
	require.False(t, s.Has("slot2"))
	require.EqualValues(t, 2, s.Object("slot").Int("cpu", "number of CPUs", 1, 64))
	var hosts []string
	for _, r := range s.Objects("runtimes", 1) {
		hosts = append(hosts, r.String("host"))
	}
	require.Equal(t, []string{"a", "b"}, hosts)
	require.Equal(t, []string{"x", "y"}, s.Strings("zones", 1))
	require.NoError(t, s.Err())
}

func TestSpecReportsEveryFaultInOrder(t *testing.T) {
	t.Parallel()

	s := provisioner.ReadSpec(json.RawMessage(`{
		"runtimes": [
			{"host": "a", "slots": 2.0},
			{"host": "b", "slots": 1e1},
			{"host": "c", "slots": "2"},
			{"host": "d", "slots": 99999999999999999999},
			{"host": "e", "slots": 1, "slots": 5},
			{"host": "f", "SLOTS": 3},
			{"host": "g", "slots": -1},
			{"host": "h", "slots": 0},
			{"host": "i", "slots": 2.5},
			{"host": "j", "slots": null},
			{"host": "k", "slots": 1e999999999},
			{"host": "l", "slots": "many"},
			{"host": "m", "slots": [1]},
			{"host": "n"},
			{"host": "", "slots": 1},
			{"host": " o", "slots": 1},
			{"host": "p\n", "slots": 1},
			{"hots": "q", "slots": 1},
			"r",
			{"host": "s", "slots": -0}
		],
		"strategy": "packed",
		"wait": 30,
		"on": "true",
		"slot": 4,
		"zones": ["x", 1],
		"few": [],
		"unheard of": {"password": "hunter2"}
	}`))
	s.Int("size", "size", 1, 9)
	s.String("name")
	s.OneOf("strategy", "spread", "spread", "pack")
	s.Duration("wait", time.Second, time.Hour)
	s.Bool("on")
	s.Object("slot").Int("cpu", "number of CPUs", 1, 64) // nothing more is said of what is not there
	s.Strings("zones", 1)
	s.Objects("few", 1)
	for _, r := range s.Objects("runtimes", 1) {
		if r.String("host") == "a" {
			r.Fault("host", "is not the address of a runtime", "write it with its scheme")
		}
		r.Int("slots", "number of slots", 1, math.MaxInt32)
	}

	const whole = ": write a whole number from 1 to 2147483647"
	want := []string{
		"size: missing: write a whole number from 1 to 9",
		"name: missing: write text in quotes",
		`runtimes[0].host: "a" is not the address of a runtime: write it with its scheme`,
		"runtimes[0].slots: 2.0 is not a number of slots: write 2",
		"runtimes[1].slots: 1e1 is not a number of slots: write 10",
		`runtimes[2].slots: "2" is text and not a number of slots: write 2, without quotes`,
		"runtimes[3].slots: 99999999999999999999 is not a number of slots" + whole,
		"runtimes[4].slots: written twice: keep one of them",
		"runtimes[5].SLOTS: unknown key: did you mean slots",
		"runtimes[6].slots: -1 is not a number of slots" + whole,
		"runtimes[7].slots: 0 is not a number of slots" + whole,
		"runtimes[8].slots: 2.5 is not a number of slots" + whole,
		"runtimes[9].slots: null is not a number of slots" + whole,
		"runtimes[10].slots: 1e999999999 is not a number of slots" + whole,
		`runtimes[11].slots: "many" is text and not a number of slots` + whole,
		"runtimes[12].slots: a list is not a number of slots" + whole,
		"runtimes[13].slots: missing" + whole,
		`runtimes[14].host: "" is empty: write text in quotes`,
		`runtimes[15].host: " o" begins or ends with a space: take it away`,
		`runtimes[16].host: "p\n" holds a control character: write one line of text`,
		"runtimes[17].host: missing: write text in quotes",
		"runtimes[17].hots: unknown key: did you mean host",
		`runtimes[18]: "r" is not an object: write an object, { ... }`,
		"runtimes[19].slots: -0 is not a number of slots" + whole,
		`strategy: "packed" is not known: write one of spread, pack`,
		`wait: 30 is not a length of time: write a time from "1s" to "1h0m0s"`,
		`on: "true" is not true or false: write true or false, without quotes`,
		"slot: 4 is not an object: write an object, { ... }",
		"zones[1]: 1 is not a line of text: write text in quotes",
		"few: has 0 entries: write at least 1",
		`["unheard of"]: unknown key: known are few, name, on, runtimes, size, slot, strategy, wait, zones`,
	}
	err := s.Err()
	require.ErrorIs(t, err, provisioner.ErrInvalid)
	require.Empty(t, cmp.Diff(want, lines(err)))
	require.Empty(t, cmp.Diff(want, lines(s.Err())), "asked again, it says the same")
	require.NotContains(t, err.Error(), "hunter2")
}

func TestSpecNeverShowsASecret(t *testing.T) {
	t.Parallel()

	s := provisioner.ReadSpec(json.RawMessage(`{"password": ["hunter2"], "token": "hunter2", "dsn": "postgres://u:hunter2@db/x", "number": 1234567, "passwrod": "hunter2"}`))
	s.Secret("password")
	s.Secret("number")
	s.Secret("token")
	s.Fault("token", "is too short", "write 16 characters or more")
	s.Int("dsn", "number", 1, 2) // read as the wrong thing
	require.Empty(t, cmp.Diff([]string{
		"password: *** is not a secret: write text in quotes",
		"token: *** is too short: write 16 characters or more",
		`dsn: "postgres://***@db/x" is text and not a number: write a whole number from 1 to 2`,
		"number: *** is not a secret: write text in quotes",
		"passwrod: unknown key: did you mean password",
	}, lines(s.Err())))
}

func TestSpecThatIsNone(t *testing.T) {
	t.Parallel()

	tests := map[string]struct{ reason, raw, want string }{
		"list":    {"another shape", "[1]", "a list is not a spec: write an object, { ... }"},
		"null":    {"null is no value", "null", "null is not a spec: write an object, { ... }"},
		"cut off": {"not JSON; the text itself is not shown", `{"host": "hunter2`, "host: not JSON from byte 9 on"},
		"two":     {"one of them would be lost", `{} {}`, "has something after its end: write one JSON value"},
		"deep":    {"bounded", strings.Repeat(`{"a":`, 100000), strings.Repeat("a.", 64) + "a: nests deeper than 64 levels"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := provisioner.ReadSpec(json.RawMessage(tt.raw))
			require.Empty(t, s.String("host"), tt.reason)
			s.Fault("host", "must not be said as well", "")
			require.Empty(t, cmp.Diff([]string{tt.want}, lines(s.Err())), tt.reason)
		})
	}
}

func TestSpecThatIsEmpty(t *testing.T) {
	t.Parallel()

	for _, raw := range []string{"", "{}"} {
		s := provisioner.ReadSpec(json.RawMessage(raw))
		require.Empty(t, s.String("host"))
		require.Equal(t, []string{"host: missing: write text in quotes"}, lines(s.Err()))
	}
}

func TestFaultsOf(t *testing.T) {
	t.Parallel()

	a, b := provisioner.Fault{Path: "a", Problem: "x"}, provisioner.Fault{Path: "b", Line: 3, Value: "1", Problem: "is y", Remedy: "z"}
	require.Equal(t, "b: line 3: 1 is y: z", b.Error())
	require.Nil(t, provisioner.FaultsOf(nil))
	require.Equal(t, provisioner.Faults{a}, provisioner.FaultsOf(a))
	require.Equal(t, provisioner.Faults{a, b}, provisioner.FaultsOf(fmt.Errorf("spec: %w", provisioner.Faults{a, b})))
	require.Equal(t, provisioner.Faults{a}, provisioner.FaultsOf(fmt.Errorf("%w: %w", provisioner.ErrInvalid, a)))
	require.Equal(t, provisioner.Faults{a, b, {Problem: "plain text"}},
		provisioner.FaultsOf(errors.Join(a, errors.New("plain\ntext"), provisioner.Faults{b})))
	require.Equal(t, provisioner.Faults{{Problem: "dial postgres://u:***@db: refused"}},
		provisioner.FaultsOf(errors.New("dial postgres://u:hunter2@db: refused")))
	require.Equal(t, provisioner.Faults{{Problem: "read templates: gone"}},
		provisioner.FaultsOf(fmt.Errorf("read templates: %w", errors.New("gone"))))
}

func TestPaths(t *testing.T) {
	t.Parallel()

	require.Equal(t, "a", provisioner.PathKey("", "a"))
	require.Equal(t, `a.b[2]["c.d"][""].e`, provisioner.PathJoin(provisioner.PathKey(provisioner.PathKey(
		provisioner.PathIndex(provisioner.PathKey("a", "b"), 2), "c.d"), ""), "e"))
	require.Less(t, len(provisioner.PathKey("", strings.Repeat("k", 1000))), 100)
}
