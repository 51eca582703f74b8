package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// IsTerminal reports whether what is written there is shown to a person at once.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Clean makes one line of a text that came from elsewhere. It leaves nothing in it that moves the cursor, colours the screen or
// turns the direction of writing.
func Clean(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r), unicode.IsControl(r):
			return ' '
		case unicode.Is(unicode.Cf, r), r == utf8.RuneError:
			return '?'
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}

// CleanJSON writes in a JSON document as escapes what Clean takes out of a line. It means the same to programs and does nothing to a
// screen. Such characters stand in strings only, and the encoder has escaped some of them already.
func CleanJSON(document []byte) []byte {
	out := make([]byte, 0, len(document))
	for _, r := range string(document) {
		switch {
		case r == '\n' || !unicode.IsControl(r) && !unicode.Is(unicode.Cf, r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

// Columns is how many columns of a screen a clean text takes: none for what combines with the character before, two for wide ones.
func Columns(s string) (n int) {
	for _, r := range s {
		n += columns(r)
	}
	return n
}

func columns(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case r < 0x1100: // none is wide before
		return 1
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Cut shortens a text to so many columns, the last of them an ellipsis.
func Cut(s string, most int) string {
	if Columns(s) <= most {
		return s
	}
	if most < 1 {
		return ""
	}
	head, _ := split(s, most-1)
	return head + "…"
}

// split parts a text behind as much of it as fits into so many columns.
func split(s string, most int) (head, rest string) {
	n := 0
	for i, r := range s {
		if n += columns(r); n > most {
			return s[:i], s[i:]
		}
	}
	return s, ""
}

// Wrap breaks a line between words so that no part is wider than so many columns, two at least. A longer word is broken too.
func Wrap(s string, most int) []string {
	most = max(most, 2)
	var lines []string
	line, length := "", 0
	for _, word := range strings.Fields(s) {
		n := Columns(word)
		if length > 0 && length+1+n > most {
			lines = append(lines, line)
			line, length = "", 0
		}
		for n > most {
			var head string
			head, word = split(word, most)
			lines = append(lines, head)
			n = Columns(word)
		}
		if length > 0 {
			line += " "
			length++
		}
		line += word
		length += n
	}
	return append(lines, line)
}
