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
	return provisioner.Registry{"t": func(string, json.RawMessage, provisioner.Options) (provisioner.Provisioner, error) { return p(), nil }}
}

func plain() provisioner.Provisioner { return provisionertest.NewFake("x") }

func parse(t *testing.T, text, def string, reg provisioner.Registry) *set.Set {
	t.Helper()
	s, err := set.Parse(text, def, reg, provisioner.Options{})
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

// A spec that a provisioner keeps as it is, secrets in it, is shown with stars, wherever they stand.
func TestMaskedHidesWhatIsPlanted(t *testing.T) {
	t.Parallel()

	type account struct {
		Name string             `json:"name"`
		Key  provisioner.Secret `json:"key"` // nothing in its name says so
	}
	type spec struct {
		Plain    provisioner.Secret            `json:"plain"`
		Pointer  *provisioner.Secret           `json:"pointer"`
		List     []provisioner.Secret          `json:"list"`
		ByName   map[string]provisioner.Secret `json:"by_name"`
		Accounts []account                     `json:"accounts"`
		Any      any                           `json:"any"`
		Size     int64                         `json:"size"`
	}
	const text = `{"a": {"type": "t", "spec": {"plain": "hunter2-a", "pointer": "hunter2-b", "list": ["hunter2-c"], "by_name": {"x": "hunter2-d"},
		"accounts": [{"name": "root", "key": "hunter2-e"}], "size": 9007199254740993}}}`
	s := parse(t, text, "a", provisioner.Registry{"t": func(name string, raw json.RawMessage, _ provisioner.Options) (provisioner.Provisioner, error) {
		read, err := provisioner.DecodeSpec[spec](raw)
		read.Any = read.Plain
		return described{Fake: provisionertest.NewFake(name), spec: read}, err
	}})
	require.Equal(t, `{
  "a": {
    "spec": {
      "accounts": [
        {
          "key": "***",
          "name": "root"
        }
      ],
      "any": "***",
      "by_name": {
        "x": "***"
      },
      "list": [
        "***"
      ],
      "plain": "***",
      "pointer": "***",
      "size": 9007199254740993
    },
    "type": "t"
  }
}`, string(s.Masked()))
}

// What a process says of all its provisioners reaches the factories; one that acts on it is another configuration then, and one
// that does not stays the same.
func TestOptionsReachTheFactories(t *testing.T) {
	t.Parallel()

	reg := provisioner.Registry{
		"pods": func(name string, _ json.RawMessage, o provisioner.Options) (provisioner.Provisioner, error) {
			image := "runtime:" + o.Version(provisioner.RuntimeArgs{})
			return described{Fake: provisionertest.NewFake(name), template: image}, nil
		},
		"hosts": func(name string, _ json.RawMessage, _ provisioner.Options) (provisioner.Provisioner, error) {
			return provisionertest.NewFake(name), nil
		},
	}
	with := func(version string) *set.Set {
		s, err := set.Parse(`{"p": {"type": "pods", "spec": {}}, "h": {"type": "hosts", "spec": {}}}`, "h", reg, provisioner.Options{RuntimeVersion: version})
		require.NoError(t, err)
		return s
	}
	a, again, b := with("v1.2.3"), with("v1.2.3"), with("v1.2.4")
	p, ok := a.Get("p")
	require.True(t, ok)
	require.Equal(t, "runtime:v1.2.3", p.(provisioner.Fingerprinter).Fingerprint())
	require.Equal(t, a.Digest("p"), again.Digest("p"))
	require.NotEqual(t, a.Digest("p"), b.Digest("p"))
	require.Equal(t, a.Digest("h"), b.Digest("h"))
}

func TestDigest(t *testing.T) {
	t.Parallel()

	digest := func(entry, template string) string {
		return parse(t, `{"a": `+entry+`}`, "a", one(func() provisioner.Provisioner {
			return described{Fake: provisionertest.NewFake("a"), template: template}
		})).Digest("a")
	}
	base := digest(`{"type": "t", "spec": {"x": 1, "y": [1, 2]}}`, "v1")
	require.Len(t, base, 32)
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
		s, err := set.Parse(text, def, registry(&open), provisioner.Options{})
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
			if len(s.Digest(name)) != 32 || provisioner.ValidName(name) != nil {
				t.Fatalf("%q has no digest or a wrong name", name)
			}
		}
		if err := s.Close(); err != nil || open.Load() != 0 {
			t.Fatalf("%d are left open: %v", open.Load(), err)
		}
	})
}

// warned has something to say of itself.
type warned struct {
	*provisionertest.Fake
	warnings provisioner.Faults
}

func (w warned) Warnings() provisioner.Faults { return w.warnings }

func TestWarnings(t *testing.T) {
	t.Parallel()
	s := parse(t, `{"b": {"type": "t", "spec": {}}, "a": {"type": "t", "spec": {}}}`, "a", one(func() provisioner.Provisioner {
		return warned{provisionertest.NewFake("x"), provisioner.Faults{{Path: "image", Problem: "is old"}, {Problem: "is odd"}}}
	}))
	require.Equal(t, "a.spec.image: is old\na.spec: is odd\nb.spec.image: is old\nb.spec: is odd", s.Warnings().Error())
	require.Empty(t, parse(t, `{"a": {"type": "t", "spec": {}}}`, "a", one(plain)).Warnings())
}
