package provisioner_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"berth/provisioner"
)

func TestValidName(t *testing.T) {
	t.Parallel()

	for _, s := range []string{"a", "static-eu", "k8s-a", "0", "a-0-b", strings.Repeat("a", 48)} {
		require.NoError(t, provisioner.ValidName(s), "%q", s)
	}
	for _, s := range []string{"", "-", "a-", "-a", "a--b", "A", "a_b", "a.b", "a b", "a\n", "ä", "a/b", strings.Repeat("a", 49)} {
		require.ErrorIs(t, provisioner.ValidName(s), provisioner.ErrInvalid, "%q", s)
	}
}
