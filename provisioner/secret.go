package provisioner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
)

const stars = "***"

// A Secret is a value of a spec that must not be seen. It reads from JSON and prints,
// logs and marshals as three stars; only Reveal gives it out. It is for configuration:
// what is stored in a row goes through Encode and must not contain one.
type Secret struct {
	// A pointer, because fmt cannot call the methods of an unexported field of another struct: it
	// prints what is in it, which then is an address.
	value *string
}

// NewSecret makes a secret of a value.
func NewSecret(value string) Secret {
	remember(value)
	return Secret{&value}
}

// Reveal gives the value out; empty if there is none.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// Equal reports whether two secrets have the same value.
func (s Secret) Equal(other Secret) bool { return s.Reveal() == other.Reveal() }

// Format prints stars, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, stars) }

// String returns stars.
func (s Secret) String() string { return stars }

// GoString returns stars.
func (s Secret) GoString() string { return stars }

// LogValue is stars.
func (s Secret) LogValue() slog.Value { return slog.StringValue(stars) }

// MarshalText returns stars.
func (s Secret) MarshalText() ([]byte, error) { return []byte(stars), nil }

// MarshalJSON returns stars.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + stars + `"`), nil }

// UnmarshalJSON reads text. Its error does not tell what stood there.
func (s *Secret) UnmarshalJSON(b []byte) error {
	var v *string
	if err := json.Unmarshal(b, &v); err != nil {
		return errors.New("a secret is not text: write it in quotes")
	}
	if s.value = v; v != nil {
		remember(*v)
	}
	return nil
}
