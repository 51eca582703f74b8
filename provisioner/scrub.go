package provisioner

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// secrets are the values of every Secret that this process has read, longest first. Errors of libraries quote what they were
// given, so what must not be seen is looked for wherever text leaves a backend.
var secrets struct {
	sync.RWMutex
	values []string
}

// shortSecret is too short to be looked for: it would blank out half of any text.
const shortSecret = 4

func remember(value string) {
	if len(value) < shortSecret {
		return
	}
	secrets.Lock()
	defer secrets.Unlock()
	if slices.Contains(secrets.values, value) {
		return
	}
	secrets.values = append(secrets.values, value)
	slices.SortFunc(secrets.values, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
}

var (
	userInfo = regexp.MustCompile(`(://[^\s/:@]*:)[^\s/@]+@`)
	bearer   = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}`)
	keyValue = regexp.MustCompile(`(?i)\b(password|passwd|pwd|secret|token|api_?key|access_?key)(["']?\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s&,;]+)`)
)

// Scrub returns text with every value of a Secret that this process has read replaced by three stars, and so what looks like one:
// passwords in URLs, bearer tokens, password=... and the like. Use it on text that came from a backend before it is stored or
// logged.
func Scrub(text string) string {
	secrets.RLock()
	for _, v := range secrets.values {
		text = strings.ReplaceAll(text, v, "***")
	}
	secrets.RUnlock()
	text = userInfo.ReplaceAllString(text, "${1}***@")
	text = bearer.ReplaceAllString(text, "$1 ***")
	return keyValue.ReplaceAllString(text, "${1}${2}***")
}
