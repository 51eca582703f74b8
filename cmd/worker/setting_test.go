package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"berth/provisioner/set"
)

const (
	rillSet, berthSet         = "RILL_ADMIN_PROVISIONER_SET_JSON", "BERTH_PROVISIONER_SET_JSON"
	rillDefault, berthDefault = "RILL_ADMIN_DEFAULT_PROVISIONER", "BERTH_DEFAULT_PROVISIONER"
)

// inFile returns the path of a file that holds a text.
func inFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "value")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// A setting has two names, and each may name a file instead. Wherever it comes from, it is the same set.
func TestSettings(t *testing.T) {
	t.Parallel()
	want := worker(t.Context(), configuredWith(poolSet, "static-example"), "config", "check")
	require.Zero(t, want.status, want.stderr)
	const name = "static-example"
	other := strings.Replace(poolSet, "50", "51", 1)
	tests := map[string]struct {
		reason string
		env    map[string]string
	}{
		"aliases":         {"the second names", map[string]string{berthSet: poolSet, berthDefault: name}},
		"mixed":           {"one of each", map[string]string{rillSet: poolSet, berthDefault: name}},
		"files":           {"a file for each", map[string]string{rillSet + "_FILE": inFile(t, poolSet), rillDefault + "_FILE": inFile(t, name)}},
		"files, aliases":  {"a file for each, by the second names", map[string]string{berthSet + "_FILE": inFile(t, poolSet), berthDefault + "_FILE": inFile(t, name)}},
		"line breaks":     {"an editor ends each file with one", map[string]string{rillSet + "_FILE": inFile(t, poolSet+"\n"), rillDefault + "_FILE": inFile(t, name+"\r\n")}},
		"byte order mark": {"an editor puts it there", map[string]string{rillSet + "_FILE": inFile(t, "\ufeff"+poolSet), rillDefault + "_FILE": inFile(t, "\ufeff"+name)}},
		"all the same": {"four times the same, but for a line break", map[string]string{
			rillSet: poolSet, berthSet: poolSet + "\n", rillSet + "_FILE": inFile(t, poolSet), berthSet + "_FILE": inFile(t, poolSet+"\n"),
			rillDefault: name, berthDefault: name, rillDefault + "_FILE": inFile(t, name+"\n"), berthDefault + "_FILE": inFile(t, name),
		}},
		"empty":      {"an empty variable is not set", map[string]string{rillSet: "", berthSet: poolSet, rillDefault: "", berthDefault: name, berthSet + "_FILE": "", rillDefault + "_FILE": ""}},
		"linked":     {"as Kubernetes mounts secrets", map[string]string{rillSet + "_FILE": linked(t, inFile(t, poolSet)), rillDefault: name}},
		"flags beat": {"whatever else is said", map[string]string{rillSet: other, berthSet: "nonsense", rillSet + "_FILE": "/nowhere", rillDefault: "x", berthDefault: "y"}},
	}
	for test, tt := range tests {
		t.Run(test, func(t *testing.T) {
			t.Parallel()
			args := []string{"config", "check"}
			if test == "flags beat" {
				args = append(args, "--provisioner-set", poolSet, "--default-provisioner", name)
			}
			require.Equal(t, want, worker(t.Context(), tt.env, args...), tt.reason)
		})
	}
}

func linked(t *testing.T, path string) string {
	t.Helper()
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(path, link))
	return link
}

// What cannot be read, and what is said twice and not the same, is told by its names, before anything is connected, in one report
// with all that is wrong otherwise, and without what was said.
func TestSettingsRefused(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	fifo := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	dir := t.TempDir()
	other := strings.Replace(poolSet, `"static"`, `"`+secret+`"`, 1)
	long := inFile(t, strings.Repeat(secret, set.MaxBytes))
	tests := map[string]struct {
		reason string
		env    map[string]string
		want   []string // the lines of the report; PATH stands for that of the file
		path   string
	}{
		"two sets": {"which is meant?", map[string]string{rillSet: poolSet, berthSet: other, rillDefault: "static-example"},
			[]string{rillSet + ": says something else than " + berthSet + ": set one of them, or both to the same"}, ""},
		"two defaults": {"which is meant?", map[string]string{rillSet: poolSet, rillDefault: "static-example", berthDefault: secret},
			[]string{rillDefault + ": says something else than " + berthDefault + ": set one of them, or both to the same"}, ""},
		"text and file": {"which is meant?", map[string]string{berthSet: poolSet, berthSet + "_FILE": inFile(t, other), rillDefault: "static-example"},
			[]string{berthSet + ": says something else than " + berthSet + "_FILE: set one of them, or both to the same"}, ""},
		"two files": {"which is meant?", map[string]string{rillSet + "_FILE": inFile(t, poolSet), berthSet + "_FILE": inFile(t, other), rillDefault: "static-example"},
			[]string{rillSet + "_FILE: says something else than " + berthSet + "_FILE: set one of them, or both to the same"}, ""},
		"no file": {"it is not there", map[string]string{berthSet + "_FILE": "/nowhere/set.json", rillDefault: "static-example"},
			[]string{berthSet + `_FILE: "/nowhere/set.json" cannot be read: no such file or directory: write the path of a file that this user can read`}, ""},
		"no file beside text": {"what is said is meant", map[string]string{rillSet: poolSet, berthSet + "_FILE": "/nowhere/set.json", rillDefault: "static-example"},
			[]string{berthSet + `_FILE: "/nowhere/set.json" cannot be read: no such file or directory: write the path of a file that this user can read`}, ""},
		"directory": {"a mount that went wrong", map[string]string{rillSet + "_FILE": dir, rillDefault: "static-example"},
			[]string{rillSet + `_FILE: "PATH" is a directory: write the path of a file`}, dir},
		"pipe": {"nobody may ever write to it", map[string]string{rillSet + "_FILE": fifo, rillDefault: "static-example"},
			[]string{rillSet + `_FILE: "PATH" is no regular file: write the path of one`}, fifo},
		"device": {"it never ends", map[string]string{rillSet + "_FILE": "/dev/zero", rillDefault: "static-example"},
			[]string{rillSet + `_FILE: "/dev/zero" is no regular file: write the path of one`}, ""},
		"too large": {"no set comes near it", map[string]string{rillSet + "_FILE": long, rillDefault: "static-example"},
			[]string{rillSet + `_FILE: "PATH" is longer than 1048576 bytes`}, long},
		"text for its file": {"it may hold a secret", map[string]string{rillSet + "_FILE": `{"password": "` + secret + `"}`, rillDefault: "static-example"},
			[]string{rillSet + "_FILE: *** cannot be read: no such file or directory: write the path of a file that this user can read"}, ""},
		"both": {"all is told together", map[string]string{rillSet: poolSet, berthSet: other, berthDefault + "_FILE": "/nowhere"},
			[]string{
				rillSet + ": says something else than " + berthSet + ": set one of them, or both to the same",
				berthDefault + `_FILE: "/nowhere" cannot be read: no such file or directory: write the path of a file that this user can read`,
			}, ""},
		"default beside faults": {"all is told together", map[string]string{berthSet: `{"a": {"type": "statik", "spec": {}}}`, berthDefault + "_FILE": "/nowhere"},
			[]string{
				`a.type: line 1: unknown type "statik": known: kubernetes, static`,
				berthDefault + `_FILE: "/nowhere" cannot be read: no such file or directory: write the path of a file that this user can read`,
			}, ""},
		"names of what was set": {"the person knows it by the name that was used", map[string]string{berthSet: "[]", berthDefault: "nobody"},
			[]string{berthSet + `: line 1: not an object: write {"NAME": {"type": "TYPE", "spec": { ... }}}`}, ""},
		"name of the default": {"the person knows it by the name that was used", map[string]string{berthSet: poolSet, berthDefault + "_FILE": inFile(t, "nobody\n")},
			[]string{berthDefault + `_FILE: "nobody" is not in the set: write one of static-example`}, ""},
	}
	for name, text := range map[string]string{"empty": "", "blank": " \r\n", "only a byte order mark": "\ufeff\n"} {
		path := inFile(t, text)
		tests[name] = struct {
			reason string
			env    map[string]string
			want   []string
			path   string
		}{
			"nothing was written yet", map[string]string{berthSet + "_FILE": path, rillDefault: "static-example"},
			[]string{berthSet + `_FILE: "PATH" is empty: write something into it, or unset ` + berthSet + "_FILE"}, path,
		}
	}
	for name, text := range map[string]string{"UTF-16": "\xff\xfe{\x00}\x00", "Latin-1": "{\"a\": \"\xe4\"}"} {
		path := inFile(t, text)
		tests[name] = struct {
			reason string
			env    map[string]string
			want   []string
			path   string
		}{
			"an editor of another system", map[string]string{berthSet + "_FILE": path, rillDefault: "static-example"},
			[]string{berthSet + `_FILE: "PATH" is not UTF-8: save it as UTF-8`}, path,
		}
	}
	for test, tt := range tests {
		t.Run(test, func(t *testing.T) {
			t.Parallel()
			env := maps.Clone(tt.env)
			env["DATABASE_URL"] = "postgres://u@127.0.0.1:1/nowhere"
			want := ""
			for _, line := range tt.want {
				want += "worker: " + strings.ReplaceAll(line, "PATH", tt.path) + "\n"
			}
			for _, command := range []string{"config check", "run", "migrate up", "org create acme"} {
				r := worker(t.Context(), env, strings.Fields(command)...)
				require.Equal(t, exitRefused, r.status, "%s: %s", tt.reason, r.stderr)
				require.Empty(t, r.stdout)
				require.Equal(t, want, r.stderr, tt.reason)
				require.NotContains(t, r.stderr, secret)
			}
		})
	}
}

// The file is read once: a worker works with what it checked.
func TestSettingsAreReadOnce(t *testing.T) {
	t.Parallel()
	path := inFile(t, poolSet)
	reads := 0
	a := &app{cli: &cli{}, lookupEnv: func(name string) (string, bool) {
		if name == berthSet+"_FILE" {
			reads++
		}
		v, ok := map[string]string{berthSet + "_FILE": path, berthDefault: "static-example"}[name]
		return v, ok
	}}
	c := a.configured(setFlags{})
	require.NoError(t, os.Remove(path))
	for range 2 {
		r, err := c.look()
		require.NoError(t, err)
		require.Len(t, r.all, 1)
	}
	require.Equal(t, 1, reads)
}
