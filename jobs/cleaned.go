package jobs

import (
	"strings"

	"berth/internal/defaults"
)

// cleaned is an error whose text can be stored: no NUL, valid UTF-8, bounded.
type cleaned struct{ error }

// Error returns the text.
func (c cleaned) Error() string {
	s := strings.ToValidUTF8(strings.ReplaceAll(c.error.Error(), "\x00", ""), "�")
	if len(s) > defaults.MaxMessage {
		s = strings.ToValidUTF8(s[:defaults.MaxMessage], "")
	}
	return s
}

// Unwrap returns the error as it was.
func (c cleaned) Unwrap() error { return c.error }
