package static_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"berth/provisioner"
	"berth/provisioner/static"
)

func TestSpecFaults(t *testing.T) {
	t.Parallel()
	const good = `{"host": "http://a:8081", "slots": 1}`
	tests := map[string]struct {
		reason string
		spec   string
		want   []string // a part of each fault, in order
	}{
		"Example":        {"the example of the README", `{"runtimes": [{"host": "http://localhost:8081", "slots": 50, "data_dir": "/mnt/data", "audience_url": "http://localhost:8081"}]}`, nil},
		"Everything":     {"every key that there is", `{"strategy": "pack", "release_on_stop": true, "slot": {"cpu": 2, "memory_gb": 8, "storage_gb": 10}, "runtimes": [` + good + `]}`, nil},
		"Largest":        {"the most slots that can be counted", `{"slot": {"storage_gb": 4}, "runtimes": [{"host": "https://a", "slots": 2147483647}]}`, nil},
		"TooMuchStorage": {"their bytes would overflow", `{"runtimes": [{"host": "https://a", "slots": 2147483647}]}`, []string{"runtimes[0].slots: 2147483647 amounts to more storage"}},
		"Address":        {"IPv6 and a trailing slash", `{"runtimes": [{"host": "http://[::1]:80/", "slots": 1}]}`, nil},
		"Empty":          {"nothing is listed", `{}`, []string{"runtimes"}},
		"NoRuntimes":     {"an empty list", `{"runtimes": []}`, []string{"runtimes: has 0 entries"}},
		"Strategy":       {"a strategy that there is not", `{"strategy": "random", "runtimes": [` + good + `]}`, []string{`strategy: "random"`}},
		"UnknownKeys":    {"mistyped keys", `{"runtime": [], "runtimes": [{"host": "http://a", "slot": 1, "slots": 1}]}`, []string{"runtime", "runtimes[0].slot"}},
		"NoSlots":        {"slots below 1", `{"runtimes": [{"host": "http://a", "slots": 0}]}`, []string{"runtimes[0].slots: 0"}},
		"HalfSlots":      {"slots that are not whole", `{"runtimes": [{"host": "http://a", "slots": 1.5}]}`, []string{"runtimes[0].slots: 1.5"}},
		"TooManySlots":   {"more than can be counted", `{"runtimes": [{"host": "http://a", "slots": 2147483648}]}`, []string{"runtimes[0].slots: 2147483648"}},
		"NoHost":         {"a host that is missing", `{"runtimes": [{"slots": 1}]}`, []string{"runtimes[0].host"}},
		"NoScheme":       {"a host without scheme", `{"runtimes": [{"host": "a:8081", "slots": 1}, {"host": "localhost", "slots": 1}]}`, []string{"runtimes[0].host", "runtimes[1].host"}},
		"OtherScheme":    {"a scheme that a ping does not speak", `{"runtimes": [{"host": "ftp://a", "slots": 1}]}`, []string{"http or https"}},
		"Path":           {"a host with a path", `{"runtimes": [{"host": "http://a/b", "slots": 1}]}`, []string{"more than a host and a port"}},
		"Query":          {"a host with a query", `{"runtimes": [{"host": "http://a?b", "slots": 1}]}`, []string{"more than a host and a port"}},
		"User":           {"a host with a user", `{"runtimes": [{"host": "http://u:p@a", "slots": 1}]}`, []string{"user name"}},
		"Port":           {"ports that can not be", `{"runtimes": [{"host": "http://a:0", "slots": 1}, {"host": "http://a:65536", "slots": 1}, {"host": "http://a:", "slots": 1}]}`, []string{"port", "port", "port"}},
		"Wildcard":       {"a pattern is no host here", `{"runtimes": [{"host": "http://node-*.example.com", "slots": 1}]}`, []string{"names no host"}},
		"Twice":          {"one host in several spellings", `{"runtimes": [` + good + `, {"host": "HTTP://A:8081/", "slots": 1}]}`, []string{"runtimes[1].host: \"HTTP://A:8081/\" is the same runtime as runtimes[0].host"}},
		"TwiceByPort":    {"a port that is the scheme's own", `{"runtimes": [{"host": "https://a", "slots": 1}, {"host": "https://a:443", "slots": 1}]}`, []string{"the same runtime"}},
		"TwiceByAddress": {"an address in two spellings", `{"runtimes": [{"host": "http://[::1]", "slots": 1}, {"host": "http://[0:0::1]", "slots": 1}]}`, []string{"the same runtime"}},
		"Audience":       {"an audience that is no URL", `{"runtimes": [{"host": "http://a", "slots": 1, "audience_url": "b"}]}`, []string{"runtimes[0].audience_url"}},
		"Slot":           {"a slot of nothing", `{"slot": {"cpu": 0, "storage_gb": 0}, "runtimes": [` + good + `]}`, []string{"slot.cpu", "slot.storage_gb"}},
		"Several":        {"everything that is wrong in one go", `{"strategy": 1, "runtimes": [{"host": "a", "slots": -1}]}`, []string{"strategy", "runtimes[0].host", "runtimes[0].slots"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := static.Factory(nil)("pool", json.RawMessage(tc.spec), provisioner.Options{})
			if tc.want == nil {
				require.NoError(t, err, tc.reason)
				require.NoError(t, p.(*static.Static).Close())
				return
			}
			require.ErrorIs(t, err, provisioner.ErrInvalid, tc.reason)
			lines := strings.Split(err.Error(), "\n")
			require.Len(t, lines, len(tc.want), "%s: %s", tc.reason, err)
			for i, part := range tc.want {
				require.Contains(t, lines[i], part, tc.reason)
			}
			require.NotContains(t, err.Error(), "u:p@", "a password is shown")
		})
	}
}

func TestHostKey(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ reason, host, want string }{
		"Plain":    {"as it is", "http://a:8081", "http://a:8081"},
		"Case":     {"names have no case", "HTTP://Node.Example.COM:8081", "http://node.example.com:8081"},
		"Slash":    {"a slash at the end means nothing", "http://a:8081/", "http://a:8081"},
		"Port":     {"the scheme's own port", "https://a", "https://a:443"},
		"HTTPPort": {"the scheme's own port", "http://a", "http://a:80"},
		"Dot":      {"a name with its dot", "http://a.example.com.", "http://a.example.com:80"},
		"IPv6":     {"an address in one spelling", "http://[0:0:0::1]:8081", "http://[::1]:8081"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := static.HostKey(tc.host)
			require.NoError(t, err, tc.reason)
			require.Empty(t, cmp.Diff(tc.want, got), tc.reason)
		})
	}
	for host, want := range map[string]string{
		"a:8081":                `host: "a:8081" has no scheme http or https: write its address with scheme and port, such as "http://10.0.0.1:8081"`,
		"http://u:hunter2@a:80": `host: "http://***@a:80" holds a user name: write its address with scheme and port, such as "http://10.0.0.1:8081"`,
		"u:hunter2@a:80":        `host: "***@a:80" has no scheme http or https: write its address with scheme and port, such as "http://10.0.0.1:8081"`,
	} {
		_, err := static.HostKey(host)
		require.ErrorIs(t, err, provisioner.ErrInvalid)
		require.EqualError(t, err, want)
	}
}
