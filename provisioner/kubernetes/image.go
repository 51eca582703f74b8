package kubernetes

import (
	"regexp"
	"strings"
)

// An image is the image of the spec, taken apart so that "{{ .Image }}:{{ .ImageTag }}" is right whatever it is.
//
//	registry:5000/a/runtime              the tag is the version
//	registry:5000/a/runtime:1.2          pinned: every version runs 1.2
//	registry:5000/a/runtime@sha256:0...  pinned: .Image ends in @sha256, .ImageTag is the digest
type image struct {
	name string
	tag  string // empty: the version
}

var imageForm = regexp.MustCompile(`\A((?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?(?::[0-9]+)?/)?` + // a registry
	`[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*)` +
	`(?::([A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?` +
	`(?:@sha256:([0-9a-f]{64}))?\z`)

// readImage takes an image apart; false if it is none.
func readImage(s string) (image, bool) {
	m := imageForm.FindStringSubmatch(s)
	switch {
	case m == nil:
		return image{}, false
	case m[3] != "":
		return image{name: strings.TrimSuffix(s, ":"+m[3]), tag: m[3]}, true
	}
	return image{name: m[1], tag: m[2]}, true
}

// at is the image and the tag that a version runs. A tag can hold no +, so that of a version's build becomes _.
func (i image) at(version string) (name, tag string) {
	if i.tag != "" {
		return i.name, i.tag
	}
	return i.name, strings.ReplaceAll(version, "+", "_")
}
