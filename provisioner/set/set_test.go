package set_test

import (
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"berth/provisioner"
	"berth/provisioner/provisionertest"
	"berth/provisioner/set"
)

// described tells its spec and has a template beside it.
type described struct {
	*provisionertest.Fake
	spec     any
	template string
}

func (d described) Spec() any           { return d.spec }
func (d described) Fingerprint() string { return d.template }

func one(p func() provisioner.Provisioner) provisioner.Registry {
	return provisioner.Registry{"t": func(string, json.RawMessage) (provisioner.Provisioner, error) { return p(), nil }}
}

func plain() provisioner.Provisioner { return provisionertest.NewFake("x") }

func parse(t *testing.T, text, def string, reg provisioner.Registry) *set.Set {
	t.Helper()
	s, err := set.Parse(text, def, reg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestMaskedHidesSecrets(t *testing.T) {
	t.Parallel()

	s := parse(t, `{"b": {"type": "t", "spec": {
		"password": "hunter2", "n": {"API_KEY": ["hunter2"], "clientSecret": {"x": "hunter2"}, "list": [{"auth_token": "hunter2"}]},
		"dsn": "postgres://hunter2", "url": "http://hunter2:hunter2@host/x?a=<b>", "secret_name": "shown", "kubeconfig_path": "k.yaml", "big": 9007199254740993}},
		"a": {"type": "t", "spec": {}}}`, "a", one(plain))
	require.Equal(t, `{
  "a": {
    "spec": {},
    "type": "t"
  },
  "b": {
    "spec": {
      "big": 9007199254740993,
      "dsn": "***",
      "kubeconfig_path": "k.yaml",
      "n": {
        "API_KEY": "***",
        "clientSecret": "***",
        "list": [
          {
            "auth_token": "***"
          }
        ]
      },
      "password": "***",
      "secret_name": "shown",
      "url": "http://***@host/x?a=<b>"
    },
    "type": "t"
  }
}`, string(s.Masked()))
}

func TestMaskedAsksWhoDescribesItself(t *testing.T) {
	t.Parallel()

	type spec struct {
		Opaque provisioner.Secret `json:"opaque"`
		Size   int                `json:"size"`
		Token  string             `json:"token_kind"`
	}
	s := parse(t, `{"a": {"type": "t", "spec": {"opaque": "hunter2"}}}`, "a", one(func() provisioner.Provisioner {
		return described{Fake: provisionertest.NewFake("a"), spec: spec{provisioner.NewSecret("hunter2"), 7, "jwt"}}
	}))
	require.JSONEq(t, `{"a": {"type": "t", "spec": {"opaque": "***", "size": 7, "token_kind": "jwt"}}}`, string(s.Masked()))
}

func TestDigest(t *testing.T) {
	t.Parallel()

	digest := func(entry, template string) string {
		return parse(t, `{"a": `+entry+`}`, "a", one(func() provisioner.Provisioner {
			return described{Fake: provisionertest.NewFake("a"), template: template}
		})).Digest("a")
	}
	base := digest(`{"type": "t", "spec": {"x": 1, "y": [1, 2]}}`, "v1")
	require.Len(t, base, 64)
	require.Equal(t, base, digest("{ // comment\n \"spec\": {\"y\": [1, 2,], \"x\": 1}, \"type\": \"t\"}", "v1"), "only the writing differs")
	for reason, other := range map[string]string{
		"another value":    digest(`{"type": "t", "spec": {"x": 2, "y": [1, 2]}}`, "v1"),
		"another order":    digest(`{"type": "t", "spec": {"x": 1, "y": [2, 1]}}`, "v1"),
		"one key more":     digest(`{"type": "t", "spec": {"x": 1, "y": [1, 2], "z": null}}`, "v1"),
		"another template": digest(`{"type": "t", "spec": {"x": 1, "y": [1, 2]}}`, "v2"),
	} {
		require.NotEqual(t, base, other, reason)
	}
	require.Empty(t, parse(t, `{"a": {"type": "t", "spec": {}}}`, "a", one(plain)).Digest("b"))
}

func TestCloseClosesAllAndTellsWhatFailed(t *testing.T) {
	t.Parallel()

	var open atomic.Int64
	boom := errors.New("boom")
	s := parse(t, `{"a": {"type": "t", "spec": {}}, "b": {"type": "t", "spec": {}}}`, "a", one(func() provisioner.Provisioner {
		open.Add(1)
		return closer{Fake: provisionertest.NewFake("x"), open: &open, err: boom}
	}))
	err := s.Close()
	require.ErrorIs(t, err, boom)
	require.Equal(t, "close provisioner a: boom\nclose provisioner b: boom", err.Error())
	require.Equal(t, err, s.Close())
	require.Zero(t, open.Load())
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"readme.json", "numbers.json"} {
		f.Add(mustRead(f, name), "static-example")
	}
	for _, text := range []string{
		"", "{}", "[]", "null", `{"a": 1}`, `{"a": {"type": "static", "spec": {"runtimes": [{"host": "a", "slots": 1}]}}}`,
		`{"d": {"type": "database", "spec": {"password": 5, "url": "http://u:p@h"}}}`, `{"p": {"type": "panics", "spec": {}}}`,
		`{"\ud800": {"type": "static", "spec": {"[0]": 1, "a.b": 2, "": 3}}}`, "{/*", "//", "{\"a\":{\"type\":\"plain\",\"spec\":{\"a\":[0]}},}",
		strings.Repeat("[", 100), strings.Repeat(`{"a":`, 100), "{\"a\": \"\\", "\ufeff{}", "{\"a\": 1e999999999}", "{'a': 1}",
	} {
		f.Add(text, "a")
	}
	f.Fuzz(func(t *testing.T, text, def string) {
		var open atomic.Int64
		s, err := set.Parse(text, def, registry(&open))
		if (s == nil) == (err == nil) {
			t.Fatalf("set %v and error %v", s, err)
		}
		if err != nil {
			var faults provisioner.Faults
			if !errors.As(err, &faults) || len(faults) == 0 || len(faults) > 502 {
				t.Fatalf("not the faults: %v", err)
			}
			for _, one := range faults {
				if one.Problem == "" || one.Path == "" || strings.ContainsAny(one.Error(), "\n\x00") || len(one.Error()) > 10000 {
					t.Fatalf("not a clear fault: %q", one.Error())
				}
				if one.Line > strings.Count(text, "\n")+2 || one.Line > 0 && one.Column < 1 && one.Path != set.EnvSet {
					t.Fatalf("stands nowhere: %+v", one)
				}
			}
			if open.Load() != 0 {
				t.Fatalf("%d are left open", open.Load())
			}
			return
		}
		if int(open.Load()) != len(s.Names()) {
			t.Fatalf("%d are open of %q", open.Load(), s.Names())
		}
		if _, ok := s.Get(s.Default()); !ok {
			t.Fatalf("the default %q is not in %q", s.Default(), s.Names())
		}
		masked := s.Masked()
		if !json.Valid(masked) {
			t.Fatalf("not JSON: %s", masked)
		}
		for _, name := range s.Names() {
			if len(s.Digest(name)) != 64 || provisioner.ValidName(name) != nil {
				t.Fatalf("%q has no digest or a wrong name", name)
			}
		}
		if err := s.Close(); err != nil || open.Load() != 0 {
			t.Fatalf("%d are left open: %v", open.Load(), err)
		}
	})
}
