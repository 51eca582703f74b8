package provisioner

import (
	"encoding/json"
	"maps"
	"slices"
)

// A Factory makes a provisioner from its entry in the configured set. name is
// unique in the set and marks what the provisioner makes. Every fault of the spec is
// reported, joined, each naming its key: see [ReadSpec] and [Faults]. New does not need the backend to be
// reachable and starts no goroutine. If the result is an io.Closer it is closed.
type Factory func(name string, spec json.RawMessage) (Provisioner, error)

// Registry maps the type in a configured entry to what makes it.
type Registry map[string]Factory

// Types returns the known types, sorted.
func (r Registry) Types() []string { return slices.Sorted(maps.Keys(r)) }
