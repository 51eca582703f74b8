package provisioner_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"berth/provisioner"
)

func TestValidVersion(t *testing.T) {
	t.Parallel()

	valid := []string{
		"latest", "1.2.3", "v1.2.3", "0123456789abcdef0123456789abcdef01234567",
		"1.2.3-rc.1", "1.2.3+b", "v0.0.0-a-b.1+c.d", "10.20.30",
	}
	for _, v := range valid {
		require.NoError(t, provisioner.ValidVersion(v), "%q", v)
	}
	invalid := []string{
		"", " ", "1.2.3\n", "\n1.2.3", "1.2.3 ", "x0123456789abcdef0123456789abcdef01234567y",
		"0123456789abcdef0123456789abcdef01234567\nimage: evil", "0123456789abcdef0123456789abcdef0123456",
		"0123456789ABCDEF0123456789ABCDEF01234567", `latest"`, "Latest", "../x", "1.2", "1.2.3.4", "01.2.3", "vv1.2.3", "V1.2.3",
		"1.2.3-", "1.2.3+", "1.2.3-a..b", "1.2.3-ä", "1.2.3\x00", "latest\nlatest",
		"1.2.3@sha256:0000000000000000000000000000000000000000000000000000000000000000",
		"1.2.3-" + strings.Repeat("a", 128),
	}
	for _, v := range invalid {
		err := provisioner.ValidVersion(v)
		require.ErrorIs(t, err, provisioner.ErrInvalid, "%q", v)
		require.NotContains(t, err.Error(), "\n", "%q", v)
		require.Less(t, len(err.Error()), 300, "%q", v)
	}
}

func TestOptionsVersion(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ reason, told, asked, want string }{
		"latest":          {"what the process was told", "v1.2.3", "latest", "v1.2.3"},
		"none":            {"as latest", "v1.2.3", "", "v1.2.3"},
		"one":             {"what is asked for is kept", "v1.2.3", "1.0.0", "1.0.0"},
		"nothing told":    {"latest is a tag too", "", "latest", "latest"},
		"nothing at all":  {"latest is a tag too", "", "", "latest"},
		"latest as told":  {"nothing else is meant", "latest", "", "latest"},
		"one, none told":  {"what is asked for is kept", "", "1.0.0", "1.0.0"},
		"case is no word": {"only latest is", "v1.2.3", "Latest", "Latest"},
	}
	for name, tt := range tests {
		got := provisioner.Options{RuntimeVersion: tt.told}.Version(provisioner.RuntimeArgs{Version: tt.asked})
		require.Equal(t, tt.want, got, "%s: %s", name, tt.reason)
	}
}
