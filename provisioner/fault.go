package provisioner

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A Fault is one thing that is wrong with a configuration, told to the person who wrote it. It is an [ErrInvalid].
type Fault struct {
	// Path leads to the key, such as runtimes[0].slots. A factory starts at its spec; the set puts the provisioner's
	// name before it. Empty means the whole.
	Path string
	// Line and Column are where it stands in the configured text, counted from 1; 0 where nobody knows.
	Line, Column int
	// Value is what stands there, shortened; empty if there is nothing or it might be a secret.
	Value   string
	Problem string // what is wrong, put after Value: "is not a number of slots"
	Remedy  string // what to do: "write a whole number from 1 to 100"; empty if Problem says it all
}

// Error prints the fault on one line: path, line, value and problem, remedy.
func (f Fault) Error() string {
	var b strings.Builder
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	if f.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", f.Line)
	}
	if f.Value != "" {
		b.WriteString(f.Value + " ")
	}
	b.WriteString(f.Problem)
	if f.Remedy != "" {
		b.WriteString(": " + f.Remedy)
	}
	return b.String()
}

// Is makes every fault an ErrInvalid.
func (f Fault) Is(target error) bool { return target == ErrInvalid }

// Faults is everything that is wrong with a configuration, in the order in which it stands there. It is an [ErrInvalid].
type Faults []Fault

// Error prints one fault a line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, one := range f {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Is makes faults an ErrInvalid.
func (f Faults) Is(target error) bool { return target == ErrInvalid }

// FaultsOf takes the faults out of an error, however they are wrapped and joined. An error that holds none becomes one
// fault with its text, scrubbed, as the problem. Nil gives nil.
func FaultsOf(err error) Faults {
	if err == nil {
		return nil
	}
	if found := collectFaults(err); len(found) > 0 {
		return found
	}
	return Faults{{Problem: Scrub(oneLine(err.Error()))}}
}

func collectFaults(err error) Faults {
	switch e := err.(type) { //nolint:errorlint // this walks the chain itself, joins included
	case Fault:
		return Faults{e}
	case Faults:
		return e
	case interface{ Unwrap() []error }:
		// What stands beside a fault in a join is a fault too; what is only a class (ErrInvalid) is not.
		var all Faults
		var rest []error
		for _, one := range e.Unwrap() {
			if found := collectFaults(one); len(found) > 0 {
				all = append(all, found...)
			} else if one != ErrInvalid { //nolint:errorlint // the bare class only
				rest = append(rest, one)
			}
		}
		if len(all) == 0 {
			return nil
		}
		for _, one := range rest {
			all = append(all, Fault{Problem: Scrub(oneLine(one.Error()))})
		}
		return all
	default:
		if inner := errors.Unwrap(err); inner != nil {
			return collectFaults(inner)
		}
		return nil
	}
}

// PathKey is path with the member key of an object added. A key that is not made of letters, digits, - and _ is quoted in
// brackets, and cut where it is very long.
func PathKey(path, key string) string {
	if !plainKey(key) {
		return path + "[" + strconv.Quote(shorten(key, maxKeyShown)) + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// PathIndex is path with the element i of a list added.
func PathIndex(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// PathJoin puts the path of a whole before the path of something in it.
func PathJoin(path, inner string) string {
	if path == "" || inner == "" || strings.HasPrefix(inner, "[") {
		return path + inner
	}
	return path + "." + inner
}

const (
	maxKeyShown   = 64 // characters of a key in a path
	maxValueShown = 60 // characters of a value in a fault
)

func plainKey(key string) bool {
	if key == "" || len(key) > maxKeyShown {
		return false
	}
	for _, r := range key {
		if r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return false
		}
	}
	return true
}

// shorten cuts s to n characters and shows that it did.
func shorten(s string, n int) string {
	seen := 0
	for i := range s {
		if seen == n {
			return s[:i] + "..."
		}
		seen++
	}
	return s
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
