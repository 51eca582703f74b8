package provisioner

import (
	"fmt"
	"strconv"
	"strings"
)

// provisionID has the length and the letters of a provision id, see [Resource.ProvisionID].
const provisionID = "0123456789abcdef0123456789abcdef"

// maxHost is the longest host name.
const maxHost = 253

// ValidHostPattern says whether s can be the host of resources that have each their own: http:// or https://, a host name in which
// one * stands for the provision id, and a port if need be, such as "https://node-*.example.com". The id has 32 characters, so
// there are 31 for the rest of that part of the name. Nothing else says so in time: Kubernetes takes an Ingress whose host can not
// be, and its certificate never comes.
//
// The name ends in a part that holds no * and is no number. So http://* is refused: the id alone is in nobody's DNS, and one
// without letters would be read as an IP address.
//
// The error is a [Fault] that says which part is too long, or which character may not stand there.
func ValidHostPattern(s string) error {
	scheme, rest, found := strings.Cut(s, "://")
	if problem, remedy := hostFault(scheme, rest, found); problem != "" {
		shown := shorten(userinfo.ReplaceAllString(s, "$1***@"), maxValueShown)
		return Fault{Value: strconv.Quote(shown), Problem: problem, Remedy: remedy}
	}
	return nil
}

const hostForm = `write one such as "https://node-*.example.com"`

func hostFault(scheme, rest string, hasScheme bool) (problem, remedy string) {
	if !hasScheme || scheme != "http" && scheme != "https" {
		return "has no scheme http or https", hostForm
	}
	if at := strings.IndexAny(rest, "/?#@\\"); at >= 0 {
		return fmt.Sprintf("holds %q: it has more than a host and a port", rest[at]), "leave out path, query and user: " + hostForm
	}
	name, port, hasPort := strings.Cut(rest, ":")
	if n, err := strconv.ParseUint(port, 10, 16); hasPort && (err != nil || n == 0) {
		return "has no port that can be", "write one from 1 to 65535 or leave it out"
	}
	if n := strings.Count(name, "*"); n != 1 {
		return fmt.Sprintf("has %d times the *, which stands for the id", n), "write it once: " + hostForm
	}
	labels := strings.Split(name, ".")
	for _, l := range labels {
		if problem, remedy := hostLabelFault(l); problem != "" {
			return problem, remedy
		}
	}
	if n := len(name) - 1 + len(provisionID); n > maxHost {
		return fmt.Sprintf("has %d characters with an id in it, more than %d", n, maxHost), "shorten it"
	}
	switch last := labels[len(labels)-1]; {
	case strings.Contains(last, "*"):
		return "has the * in its last part", "put a domain after it: " + hostForm
	case strings.Trim(last, "0123456789") == "":
		return "ends in a number, as an IP address does", "write a name: " + hostForm
	}
	return "", ""
}

// hostLabelFault says what is wrong with one part of a host name.
func hostLabelFault(pattern string) (problem, remedy string) {
	label := strings.ReplaceAll(pattern, "*", provisionID)
	if n := len(label); n > maxLabel {
		return fmt.Sprintf("has a part %q of %d characters with an id in it, more than %d", shorten(pattern, maxValueShown), n, maxLabel),
			fmt.Sprintf("take away %d", n-maxLabel)
	}
	if label == "" {
		return "has an empty part", "write one dot between two parts, and none at the ends"
	}
	for _, r := range label {
		switch {
		case r >= 'A' && r <= 'Z':
			return fmt.Sprintf("holds %q", r), "write lower-case letters"
		case r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z'):
			return fmt.Sprintf("holds %q", r), "use a to z, 0 to 9 and dashes"
		}
	}
	if strings.Trim(label, "-") != label {
		return fmt.Sprintf("has a part %q that begins or ends with a dash", shorten(pattern, maxValueShown)), "take the dash away"
	}
	return "", ""
}
