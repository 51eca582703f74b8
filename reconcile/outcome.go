package reconcile

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"berth/internal/defaults"
	"berth/provisioner"
)

// outcome is what came of a run, as it is stored.
type outcome struct {
	*place
	seen            provisioner.Phase
	reason, message string
	state, config   json.RawMessage
	met             bool          // it is as wished
	gone            bool          // and what was wished is that nothing is there
	failed          bool          // counts as a failure
	givenUp         bool          // will not be met as things stand
	waits           bool          // for room: no deadline runs
	retry           time.Duration // when to look again; below zero: not by itself
	again           bool          // take the next step at once

	result chan error // of the round that tried to store it
}

// clean is a text that can be stored and shown: no NUL, valid UTF-8, bounded, no secret.
func clean(s string) string {
	s = provisioner.Scrub(s)
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\uFFFD")
	if len(s) > defaults.MaxMessage {
		s = s[:defaults.MaxMessage]
		for !utf8.ValidString(s) {
			s = s[:len(s)-1]
		}
	}
	return s
}
