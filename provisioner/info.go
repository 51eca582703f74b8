package provisioner

import "time"

// Info is what a provisioner says of itself. Zero values take the worker's default.
type Info struct {
	Types       []ResourceType // what it can make
	Timeout     time.Duration  // how long a resource may be pending before that is an error
	Concurrency int            // at most this many calls at once, in each worker
}

// Supports reports whether t is among the types.
func (i Info) Supports(t ResourceType) bool {
	for _, have := range i.Types {
		if have == t {
			return true
		}
	}
	return false
}
