//go:build unix && !aix && !solaris

package postgres

import (
	"archive/zip"
	"bytes"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// entries are the names in a directory, none when there is no such directory.
func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(t, err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// repository serves an archive as the usual repository does, for whatever system this is.
func repository(t *testing.T, packed []byte) string {
	t.Helper()
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	w, err := z.Create("postgres.txz")
	require.NoError(t, err)
	_, err = w.Write(packed)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, ".jar") {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(archive.Bytes())
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestDownload(t *testing.T) {
	t.Parallel()
	packed, err := os.ReadFile("testdata/server.txz")
	require.NoError(t, err)
	f := bareFinder(t, nil)
	f.repository = repository(t, packed)
	b, err := f.find(t.Context())
	require.NoError(t, err)
	require.Equal(t, "download", b.source)
	require.Equal(t, 17, b.major)
	require.Len(t, entries(t, f.cache), 1, "nothing but the server is left in the cache")

	f.repository = bareFinder(t, nil).repository
	again, err := f.find(t.Context())
	require.NoError(t, err, "the next time it is at hand")
	require.Equal(t, b.dir, again.dir)
}

func TestDownloadBroken(t *testing.T) {
	t.Parallel()
	f := bareFinder(t, nil)
	f.repository = repository(t, []byte("this was cut short"))
	_, err := f.find(t.Context())
	require.ErrorIs(t, err, ErrNotFound)
	require.Empty(t, entries(t, f.cache))
}

func TestDownloadIsBounded(t *testing.T) {
	t.Parallel()
	asked, hold := make(chan struct{}, 1), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-hold
	}))
	f := bareFinder(t, nil)
	f.repository, f.bound = server.URL, 50*time.Millisecond
	_, err := f.find(t.Context())
	require.ErrorIs(t, err, ErrNotFound)
	require.ErrorContains(t, err, "not done within 50ms")
	require.ErrorContains(t, err, "DATABASE_URL")

	<-asked
	close(hold) // what was left to itself ends now, and clears up
	server.Close()
	require.Eventually(t, func() bool { return len(entries(t, f.cache)) == 0 }, time.Minute, time.Millisecond)
}
