package provisioner

import (
	"fmt"
	"regexp"
	"strconv"
)

// latest is the version that stands for the one that a process was told.
const latest = "latest"

// maxVersion is the longest version that can be the tag of an image.
const maxVersion = 128

var version = regexp.MustCompile(`\A(?:` + latest + `|[0-9a-f]{40}|` +
	`v?(?:0|[1-9][0-9]*)\.(?:0|[1-9][0-9]*)\.(?:0|[1-9][0-9]*)` + // major, minor, patch
	`(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?` + // pre-release
	`(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?` + // build
	`)\z`)

// ValidVersion says whether s is the version of a runtime: latest, a semantic version with or without v, or a commit of 40
// hexadecimal digits. Nothing may stand around it, because it goes into manifests; empty is refused, so fill in the default
// before. The error is an ErrInvalid.
func ValidVersion(s string) error {
	if len(s) <= maxVersion && version.MatchString(s) {
		return nil
	}
	return fmt.Errorf("%w: version %s: write latest, a version such as 1.2.3 or v1.2.3-rc.1, or a commit as 40 lower-case hexadecimal digits",
		ErrInvalid, strconv.Quote(shorten(s, maxValueShown)))
}
