package provisioner

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

// maxLabel is the longest value of a label in Kubernetes, and the longest label of a host name.
const maxLabel = 63

var labelValue = regexp.MustCompile(`\A(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?\z`)

// labelMark is how many hexadecimal digits tell apart what was changed.
const labelMark = 10

// LabelValue makes of any text, such as the name of an organization, a legal value of a Kubernetes label, the same one each time.
// A text that is legal is its own value, so is the empty one. In another each character that may not stand there becomes a dash, dashes,
// dots and underscores at the ends are cut off, and so is what is too long; then a dash and the first digits of the text's SHA-256
// follow, so that texts that differ keep values that differ. Such a value is for people and their queries, never for a decision:
// what is ours is known by its id alone.
func LabelValue(s string) string {
	if len(s) <= maxLabel && labelValue.MatchString(s) {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	mark := hex.EncodeToString(sum[:])[:labelMark]
	stem := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r == '.' || r == '_' {
			return r
		}
		return '-'
	}, s)
	stem = stem[:min(len(stem), maxLabel-labelMark-1)]
	if trimmed := strings.Trim(stem, "-_."); trimmed != "" {
		return trimmed + "-" + mark
	}
	return mark
}
