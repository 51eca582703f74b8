package provisioner

import (
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestValidHostPattern(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ reason, pattern, want string }{
		"as long as it may be": {"63 characters with the id", "https://customer-runtime-node-in-eu-w1-*.example.test", ""},
		"too long":             {"67 with the id", "https://customer-runtime-node-in-europe-w1-*.example.test", `has a part "customer-runtime-node-in-europe-w1-*" of 67 characters with an id in it, more than 63: take away 4`},
		"underscore":           {"no host name has one", "https://node_*.example.test", `holds '_': use a to z, 0 to 9 and dashes`},
		"upper case":           {"Kubernetes refuses it", "https://Node-*.Example.test", `holds 'N': write lower-case letters`},
		"no star":              {"all would have the same host", "https://node.example.test", "has 0 times the *"},
		"two stars":            {"one id is enough", "https://*.*.example.test", "has 2 times the *"},
		"no scheme":            {"clients need it", "node-*.example.test", "has no scheme http or https"},
		"other scheme":         {"no client of a runtime speaks it", "ftp://node-*.example.test", "has no scheme http or https"},
		"path":                 {"the host is what differs", "https://apps.example.test/node/*", "holds '/': it has more than a host and a port"},
		"slash":                {"one way to write it", "https://node-*.example.test/", "holds '/'"},
		"query":                {"no part of a host", "https://node-*.example.test?a", "holds '?'"},
		"user":                 {"no part of a host, and not shown", "https://u:hunter2@node-*.example.test", `"https://***@node-*.example.test" holds '@'`},
		"port":                 {"where it is not the scheme's", "http://node-*.localhost:8443", ""},
		"port 0":               {"nobody listens there", "http://node-*.localhost:0", "has no port that can be"},
		"no port":              {"but a colon", "http://node-*.localhost:", "has no port that can be"},
		"IPv6":                 {"no name to make others of", "http://[::1]:80/*", "holds '/'"},
		"star alone":           {"the id is in nobody's DNS, and may look like a number", "http://*", "has the * in its last part: put a domain after it"},
		"star last":            {"as above", "http://node.*", "has the * in its last part"},
		"IP":                   {"no name", "http://*.10.0.0.1", "ends in a number, as an IP address does"},
		"empty part":           {"two dots", "http://*..example.test", "has an empty part"},
		"dot last":             {"it would be another text for the same host", "http://*.example.test.", "has an empty part"},
		"dash first":           {"no host name has one", "http://-*.example.test", `has a part "-*" that begins or ends with a dash`},
		"dash last":            {"no host name has one", "http://*-.example.test", `has a part "*-" that begins or ends with a dash`},
		"star in the middle":   {"anywhere but at the end", "http://node-*-eu.a.example.test", ""},
		"not ASCII":            {"write it as DNS does", "http://knöten-*.example.test", "holds 'ö'"},
		"space":                {"no host name has one", "http://node *.example.test", "holds ' '"},
		"line":                 {"shown on one line", "http://*.example.test\n", `holds '\n'`},
		"whole name":           {"253 at most", "http://*." + strings.Repeat("a.", 110) + "test", "has 257 characters with an id in it, more than 253"},
		"empty":                {"nothing", "", "has no scheme http or https"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := ValidHostPattern(tt.pattern)
			if tt.want == "" {
				require.NoError(t, err, tt.reason)
				return
			}
			require.ErrorIs(t, err, ErrInvalid, tt.reason)
			require.ErrorContains(t, err, tt.want, tt.reason)
			require.NotContains(t, err.Error(), "hunter2")
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

// hostNameForm is what Kubernetes says of the host of an Ingress.
var hostNameForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// What is let through makes hosts that can be, for every id.
func FuzzValidHostPattern(f *testing.F) {
	for _, s := range []string{"https://node-*.example.test", "http://*.localhost:8443", "http://*", "http://*.1", "*", "http://a*b.c:65536", "https://*.É.test", "http://*.a:+80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		if ValidHostPattern(pattern) != nil {
			return
		}
		id := Resource{ID: uuid.New()}.ProvisionID()
		made := strings.ReplaceAll(pattern, "*", id)
		u, err := url.Parse(made)
		switch {
		case err != nil || u.Host == "" || u.Path != "" || u.User != nil || u.RawQuery != "" || u.Scheme+"://"+u.Host != made:
			t.Fatalf("%q makes no address: %v", pattern, err)
		case !hostNameForm.MatchString(u.Hostname()) || len(u.Hostname()) > 253 || strings.Count(made, id) != 1:
			t.Fatalf("%q makes a host that can not be", pattern)
		}
		for _, label := range strings.Split(u.Hostname(), ".") {
			if len(label) > 63 {
				t.Fatalf("%q makes a part of %d characters", pattern, len(label))
			}
		}
	})
}
