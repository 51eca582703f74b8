//go:build unix && !aix && !solaris

package postgres

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckSocketDir(t *testing.T) {
	t.Parallel()
	require.NoError(t, checkSocketDir("/"+strings.Repeat("a", maxSocketDir-1)))
	require.ErrorContains(t, checkSocketDir("/"+strings.Repeat("a", maxSocketDir)), HomeEnv, "the remedy is named")
	require.ErrorContains(t, checkSocketDir("/tmp/a,b"), HomeEnv, "a comma would part it in two")
}

func TestStartTooLong(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(shortDir(t), strings.Repeat("long", 30))
	_, err := Start(t.Context(), Options{Dir: dir, Name: "x"})
	require.ErrorContains(t, err, "too long for a unix socket")
	require.Empty(t, entries(t, dir))
}

func TestCanEnter(t *testing.T) {
	t.Parallel()
	closed := filepath.Join(shortDir(t), "closed")
	inner := filepath.Join(closed, "inner")
	require.NoError(t, os.MkdirAll(inner, 0o755))
	require.NoError(t, os.Chmod(closed, 0o700))
	other := account{name: "somebody", uid: os.Geteuid() + 4242, gid: os.Getegid() + 4242, drop: true}
	err := other.canEnter(inner)
	require.ErrorContains(t, err, closed, "the directory in the way is named, not the one asked for")
	require.ErrorContains(t, err, "somebody")
	require.ErrorContains(t, err, HomeEnv)

	require.NoError(t, account{name: "this user"}.canEnter(inner), "who does not change the user is not held up")
	require.NoError(t, os.Chmod(closed, 0o701))
	require.NotContains(t, fmt.Sprint(other.canEnter(inner)), closed, "it is not in the way any more")
}
