package reconcile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
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
	down            bool          // its backend does not answer anybody: no deadline runs either, unless it has passed
	retry           time.Duration // when to look again; below zero: not by itself
	again           bool          // take the next step at once, if the state that it returned is a new one
	aside           bool          // it was not called, for it lost one worker too many

	result chan error // of the round that tried to store it
}

// clean is a text that can be stored and shown: one line of valid UTF-8, bounded, no NUL, no secret. Secrets are looked for last
// but one, in the text as it will be seen: what was cut up by a NUL is found, and half of one is not left at the end.
func clean(s string) string {
	s = strings.ToValidUTF8(strings.NewReplacer("\x00", "", "\r\n", " ", "\n", " ", "\r", " ").Replace(s), "\uFFFD")
	s = provisioner.Scrub(s)
	if len(s) > defaults.MaxMessage {
		s = strings.ToValidUTF8(s[:defaults.MaxMessage], "")
	}
	return s
}

// unstorable says why a row can not hold what a backend wants kept, or nothing. What slips through is met by the commit.
func unstorable(raw json.RawMessage) string {
	if len(raw) > defaults.MaxNotes {
		return fmt.Sprintf("%d bytes are more than %d", len(raw), defaults.MaxNotes)
	}
	if !utf8.Valid(raw) {
		return "it is not valid UTF-8"
	}
	var object map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&object) != nil || object == nil || d.More() {
		return "it is not one JSON object"
	}
	if holdsNUL(object) {
		return "it holds a NUL character"
	}
	return ""
}

func holdsNUL(v any) bool {
	switch v := v.(type) {
	case string:
		return strings.IndexByte(v, 0) >= 0
	case []any:
		return slices.ContainsFunc(v, holdsNUL)
	case map[string]any:
		for key, value := range v {
			if holdsNUL(key) || holdsNUL(value) {
				return true
			}
		}
	}
	return false
}

// refuse turns an outcome into one that can be stored whatever the backend returned: nothing of that is kept.
func (o *outcome) refuse(why string) {
	o.state, o.config, o.seen, o.met, o.gone, o.again = o.place.state, o.place.config, provisioner.PhaseUnknown, false, false, false
	o.failed, o.givenUp, o.waits, o.down, o.retry = true, false, false, false, backoff(o.failures)
	o.reason, o.message = "Unstorable", clean(why)
}
