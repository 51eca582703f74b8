package provisioner

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Decode reads args, state or config: keys it does not know are left alone, because a newer
// process may have written them. Nothing at all is the zero T. Numbers are exact: one that does
// not fit its field is an error, and one in a field of type any stays a json.Number. The error is
// an ErrInvalid.
func Decode[T any](raw json.RawMessage) (T, error) { return decode[T](raw, false) }

// DecodeSpec reads a spec: a key it does not know is a fault, because a person mistyped it, and so
// is one in another case or written twice. [ReadSpec] finds every fault in one go and names its
// place; this one is for a spec of a few plain fields.
func DecodeSpec[T any](raw json.RawMessage) (T, error) {
	if len(raw) > 0 {
		if err := exactKeys[T](raw); err != nil {
			var zero T
			return zero, err
		}
	}
	return decode[T](raw, true)
}

func decode[T any](raw json.RawMessage, strict bool) (T, error) {
	var v, zero T
	if len(raw) == 0 {
		return v, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if strict {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(&v); err != nil {
		return zero, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return zero, fmt.Errorf("%w: something stands after the end of the JSON", ErrInvalid)
	}
	return v, nil
}

// Encode is the inverse of Decode. It panics on what JSON cannot hold, which no type of
// this package is.
func Encode(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}
