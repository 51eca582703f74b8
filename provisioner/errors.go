package provisioner

import "errors"

// Classes of errors, matched with errors.Is. An error of none of them is transient:
// tried again with growing pauses, counted as a failure.
var (
	// ErrInvalid: this request can never work. Not tried again until it changes.
	ErrInvalid = errors.New("invalid")
	// ErrNoCapacity: there is no room now. Waits, in order, with no deadline and
	// without counting as a failure, until room appears. Losing a race is not this.
	ErrNoCapacity = errors.New("no capacity")
	// ErrUnavailable: the backend as a whole does not answer. Counts against the
	// provisioner and not against the resource.
	ErrUnavailable = errors.New("unavailable")
)
