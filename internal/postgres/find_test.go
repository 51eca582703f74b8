//go:build unix && !aix && !solaris

package postgres

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// servers is the absolute path of a directory of pretended servers.
func servers(t *testing.T, names ...string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(append([]string{"testdata", "servers"}, names...)...))
	require.NoError(t, err)
	return dir
}

// bareFinder finds nothing on this machine, and nothing to download.
func bareFinder(t *testing.T, env map[string]string) *finder {
	t.Helper()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	return &finder{
		env:        func(k string) string { return env[k] },
		as:         account{name: "this user"},
		cache:      filepath.Join(t.TempDir(), "cache"),
		repository: closed.URL,
		bound:      time.Minute,
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	type found struct {
		dir, source string
		major       int
	}
	tests := map[string]struct {
		reason    string
		env       map[string]string
		installed []string
		want      found
	}{
		"Configured": {
			reason:    "the configured directory goes before everything",
			env:       map[string]string{BinEnv: servers(t, "new16"), "PATH": servers(t, "new17")},
			installed: []string{servers(t, "new17")},
			want:      found{servers(t, "new16"), BinEnv, 16},
		},
		"Path": {
			reason:    "PATH goes before what is newer elsewhere: a person chose it",
			env:       map[string]string{"PATH": "/nowhere:" + servers(t, "new16")},
			installed: []string{servers(t, "new17")},
			want:      found{servers(t, "new16"), "PATH", 16},
		},
		"PgConfig": {
			reason:    "pg_config is asked when the server itself is not on PATH",
			env:       map[string]string{"PATH": servers(t, "config")},
			installed: []string{servers(t, "new17")},
			want:      found{servers(t, "new16"), "pg_config", 16},
		},
		"Newest": {
			reason:    "of the installed ones the newest, whatever their order",
			installed: []string{servers(t, "new*"), servers(t, "old*"), servers(t, "odd")},
			want:      found{servers(t, "new17"), "installed", 17},
		},
		"TooOldOnPath": {
			reason:    "one that is too old does not end the search",
			env:       map[string]string{"PATH": servers(t, "old14")},
			installed: []string{servers(t, "new16")},
			want:      found{servers(t, "new16"), "installed", 16},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := bareFinder(t, tc.env)
			f.installed = tc.installed
			b, err := f.find(t.Context())
			require.NoError(t, err, tc.reason)
			if diff := cmp.Diff(tc.want, found{b.dir, b.source, b.major}, cmp.AllowUnexported(found{})); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestFindConfiguredIsWrong(t *testing.T) {
	t.Parallel()
	for name, dir := range map[string]string{"Absent": "/nowhere/at/all", "Old": servers(t, "old14"), "Odd": servers(t, "odd")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := bareFinder(t, map[string]string{BinEnv: dir, "PATH": servers(t, "new17")}).find(t.Context())
			require.ErrorContains(t, err, BinEnv+" is ", "what was configured is not passed over in silence")
			require.ErrorContains(t, err, dir)
			require.ErrorContains(t, err, "15 or newer")
		})
	}
}

func TestFindNothing(t *testing.T) {
	t.Parallel()
	f := bareFinder(t, map[string]string{"PATH": servers(t, "old14")})
	_, err := f.find(t.Context())
	require.ErrorIs(t, err, ErrNotFound)
	for _, part := range []string{"apt-get install postgresql", "brew install postgresql@17", "DATABASE_URL", BinEnv, "version 14 is older than 15"} {
		require.ErrorContains(t, err, part)
	}
	require.NotContains(t, err.Error(), "\n", "one line")
	require.Empty(t, entries(t, f.cache), "a download that failed leaves nothing")
}
