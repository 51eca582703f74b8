package provisioner

import (
	"fmt"
	"regexp"
	"strconv"
)

// MaxName is the longest name of a provisioner: it becomes part of a queue's name and a label.
const MaxName = 48

var name = regexp.MustCompile(`\A[a-z0-9]+(?:-[a-z0-9]+)*\z`)

// ValidName says whether s can be the name of a provisioner. The error is a [Fault] with the name as its value.
func ValidName(s string) error {
	if len(s) <= MaxName && name.MatchString(s) {
		return nil
	}
	return Fault{
		Value:   strconv.Quote(shorten(s, maxValueShown)),
		Problem: "is not the name of a provisioner",
		Remedy:  fmt.Sprintf("write lower-case letters and digits, in words joined by single dashes, at most %d characters", MaxName),
	}
}
