package lifecycle

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"berth/provisioner"
)

var (
	nameForm        = regexp.MustCompile(`\A[A-Za-z0-9][A-Za-z0-9._-]{0,62}\z`)
	environmentForm = regexp.MustCompile(`\A[a-z0-9][a-z0-9-]{0,30}\z`)
	typeForm        = regexp.MustCompile(`\A[a-z][a-z0-9_-]{0,62}\z`)
	resourceForm    = regexp.MustCompile(`\A([a-z0-9][a-z0-9._-]{0,62})?\z`)
	reasonForm      = regexp.MustCompile(`\A[A-Za-z0-9]{1,64}\z`)
	annotationForm  = regexp.MustCompile(`\A[A-Za-z0-9]([A-Za-z0-9._/-]{0,126}[A-Za-z0-9])?\z`)
)

// Bounds of annotations: they end up in manifests and rows.
const (
	maxAnnotations     = 64
	maxAnnotationValue = 1024
)

// reservedAnnotations are set by Berth and say what is so.
var reservedAnnotations = []string{"organization", "project"}

func checkName(kind, name string) error {
	if nameForm.MatchString(name) {
		return nil
	}
	return refuse(ErrInvalid, fmt.Sprintf("%s %s", kind, quote(name)), "the name does not fit",
		"use 1 to 63 of A-Z, a-z, 0-9, dot, underscore and dash, the first a letter or digit")
}

func checkSlots(slots int) error {
	if slots >= 1 && slots <= math.MaxInt32 {
		return nil
	}
	return refuse(ErrInvalid, fmt.Sprintf("slots %d", slots), "out of range", fmt.Sprintf("ask for 1 to %d", math.MaxInt32))
}

func checkVersion(version string) error {
	if provisioner.ValidVersion(version) == nil {
		return nil
	}
	return refuse(ErrInvalid, "version "+quote(version), "it is none", `use "latest", a version such as 1.2.3, or a commit of 40 hex digits`)
}

func checkEnvironment(environment string) error {
	if environmentForm.MatchString(environment) {
		return nil
	}
	return refuse(ErrInvalid, "environment "+quote(environment), "the name does not fit",
		"use 1 to 31 of a-z, 0-9 and dash, the first no dash, such as prod or dev")
}

func checkResource(typ, name string) error {
	if !typeForm.MatchString(typ) {
		return refuse(ErrInvalid, "resource type "+quote(typ), "the name does not fit", "use 1 to 63 of a-z, 0-9, underscore and dash, the first a letter")
	}
	if !resourceForm.MatchString(name) {
		return refuse(ErrInvalid, "resource name "+quote(name), "it does not fit", "use up to 63 of a-z, 0-9, dot, underscore and dash, the first a letter or digit")
	}
	return nil
}

func checkAnnotations(annotations map[string]string) error {
	if len(annotations) > maxAnnotations {
		return tooManyAnnotations("annotations", len(annotations))
	}
	for _, k := range slices.Sorted(maps.Keys(annotations)) {
		if err := checkAnnotationKey(k); err != nil {
			return err
		}
		v := annotations[k]
		switch {
		case len(v) > maxAnnotationValue:
			return refuse(ErrInvalid, "annotation "+quote(k), fmt.Sprintf("its value has %d bytes", len(v)), fmt.Sprintf("use at most %d", maxAnnotationValue))
		case !utf8.ValidString(v) || strings.ContainsRune(v, 0):
			return refuse(ErrInvalid, "annotation "+quote(k), "its value is not text", "use UTF-8 without NUL")
		}
	}
	return nil
}

func checkAnnotationKey(k string) error {
	if !annotationForm.MatchString(k) {
		return refuse(ErrInvalid, "annotation "+quote(k), "the key does not fit",
			"use up to 128 of A-Z, a-z, 0-9, dot, underscore, dash and slash, the first and last a letter or digit")
	}
	if slices.Contains(reservedAnnotations, k) {
		return refuse(ErrInvalid, "annotation "+quote(k), "it is set by Berth", "use another key")
	}
	return nil
}

func checkForget(keys []string) error {
	if len(keys) > maxAnnotations {
		return tooManyAnnotations("annotations to forget", len(keys))
	}
	for _, k := range keys {
		if err := checkAnnotationKey(k); err != nil {
			return err
		}
	}
	return nil
}

func tooManyAnnotations(what string, n int) error {
	return refuse(ErrInvalid, what, fmt.Sprintf("there would be %d annotations", n), fmt.Sprintf("use at most %d", maxAnnotations))
}

// quote shows what a person wrote, bounded.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%q...", strings.ToValidUTF8(s[:most], ""))
	}
	return fmt.Sprintf("%q", s)
}
