package lifecycle

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Bounds of args: they are read by every run. Those of numbers are within what Postgres keeps exactly.
const (
	maxArgs     = 256 << 10 // bytes
	maxDepth    = 64        // objects and lists in each other
	maxDigits   = 1000      // characters of a number
	maxExponent = 1000      // of a number, either way
)

// unstorable says why args are no JSON object that Postgres keeps as it is; empty if they are. Postgres would say it too, at the
// price of the caller's transaction.
func unstorable(raw json.RawMessage) string {
	switch {
	case len(raw) > maxArgs:
		return fmt.Sprintf("they have %d bytes, more than %d", len(raw), maxArgs)
	case !utf8.Valid(raw):
		return "they are not UTF-8"
	case !json.Valid(raw):
		return "they are not JSON"
	case !strings.HasPrefix(strings.TrimLeft(string(raw), " \t\r\n"), "{"):
		return "they are not a JSON object"
	}
	depth := 0
	for i := 0; i < len(raw); i++ { // what is valid has a backslash in strings only, and each string ends
		switch c := raw[i]; {
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return fmt.Sprintf("they nest deeper than %d levels", maxDepth)
			}
		case c == '}' || c == ']':
			depth--
		case c == '"':
			n, why := scanString(raw[i:])
			if why != "" {
				return why
			}
			i += n - 1
		case c == '-' || c >= '0' && c <= '9':
			n := 1
			for i+n < len(raw) && strings.IndexByte("+-.0123456789eE", raw[i+n]) >= 0 {
				n++
			}
			if !exactNumber(string(raw[i : i+n])) {
				return fmt.Sprintf("a number in them has more than %d digits", maxDigits)
			}
			i += n - 1
		}
	}
	return ""
}

// scanString returns the length of the string that raw begins with, quotes included.
func scanString(raw []byte) (int, string) {
	for i := 1; ; i++ {
		switch {
		case raw[i] == '"':
			return i + 1, ""
		case raw[i] != '\\':
		case raw[i+1] != 'u':
			i++
		default:
			r := escaped(raw[i:])
			i += 5
			switch {
			case r == 0:
				return 0, "they hold a NUL character"
			case utf16.IsSurrogate(r):
				if utf16.DecodeRune(r, escaped(raw[i+1:])) == utf8.RuneError {
					return 0, "they hold half of a character"
				}
				i += 6
			}
		}
	}
}

// escaped reads the \uXXXX that raw begins with; -1 if it does not.
func escaped(raw []byte) rune {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(raw[2:6]), 16, 32)
	if err != nil {
		return -1
	}
	return rune(n)
}

func exactNumber(s string) bool {
	if len(s) > maxDigits {
		return false
	}
	if at := strings.IndexAny(s, "eE"); at >= 0 {
		n, err := strconv.Atoi(s[at+1:])
		return err == nil && n >= -maxExponent && n <= maxExponent
	}
	return true
}
