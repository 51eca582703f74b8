package static

import (
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"berth/provisioner"
)

// spec is the configuration of a pool.
type spec struct {
	pack          bool
	releaseOnStop bool
	slot          provisioner.Slot
	hosts         []Host
}

func readSpec(raw json.RawMessage) (spec, error) {
	s := provisioner.ReadSpec(raw)
	c := spec{
		pack:          s.OneOf("strategy", "spread", "spread", "pack") == "pack",
		releaseOnStop: s.BoolOr("release_on_stop", false),
		slot:          provisioner.ReadSlot(s),
	}
	first := map[string]string{} // where a host stands already
	for _, r := range s.Objects("runtimes", 1) {
		h := Host{
			URL:     r.String("host"),
			Slots:   int(r.Int("slots", "number of slots", 1, math.MaxInt32)),
			DataDir: r.StringOr("data_dir", ""),
		}
		key, fault := normalise(h.URL)
		switch where, twice := first[key]; {
		case h.URL == "": // reported
		case fault != "":
			r.Fault("host", fault, hostForm)
		case twice:
			r.Fault("host", "is the same runtime as "+where, "list each runtime once")
		default:
			first[key] = r.Path("host")
		}
		if most := math.MaxInt64 / int64(1e9) / int64(max(c.slot.StorageGB, 1)); int64(h.Slots) > most {
			r.Fault("slots", "amounts to more storage than can be counted", fmt.Sprintf("use at most %d slots of %d GB", most, c.slot.StorageGB))
		}
		h.Key = key
		h.Audience = r.StringOr("audience_url", h.URL)
		if u, err := url.Parse(h.Audience); h.Audience != h.URL && (err != nil || u.Scheme == "" || u.Host == "") {
			r.Fault("audience_url", "is not a URL", `write one such as "https://runtime.example.com", or leave it out: then it is the host`)
		}
		c.hosts = append(c.hosts, h)
	}
	return c, s.Err()
}

// normalise returns what a runtime is known by, so that two spellings of one address are one host; or what is wrong with it.
func normalise(raw string) (key, fault string) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", "is not the address of a runtime"
	}
	u.Scheme = strings.ToLower(u.Scheme)
	defaultPort, known := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	switch {
	case !known:
		return "", "has no scheme http or https"
	case u.Hostname() == "" || strings.ContainsAny(u.Host, " \t*"):
		return "", "names no host"
	case u.User != nil:
		return "", "holds a user name"
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", "has more than a host and a port"
	}
	port := u.Port()
	if port == "" {
		port = defaultPort
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > math.MaxUint16 || strings.HasSuffix(u.Host, ":") {
		return "", "has no port that can be"
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if ip := net.ParseIP(host); ip != nil {
		host = ip.String()
	}
	return fmt.Sprintf("%s://%s", u.Scheme, net.JoinHostPort(host, port)), ""
}

// base is the address that requests to a host begin with.
func base(raw string) string { return strings.TrimSuffix(raw, "/") }

const hostForm = `write its address with scheme and port, such as "http://10.0.0.1:8081"`

// userInfo is what may hold a password.
var userInfo = regexp.MustCompile(`[^/?#\s]*@`)

// HostKey returns what the host of an address is known by in a [Store]. The error is an ErrInvalid.
func HostKey(raw string) (string, error) {
	key, fault := normalise(raw)
	if fault != "" {
		return "", provisioner.Fault{Path: "host", Value: strconv.Quote(userInfo.ReplaceAllString(raw, "***@")), Problem: fault, Remedy: hostForm}
	}
	return key, nil
}
