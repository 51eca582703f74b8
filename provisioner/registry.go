package provisioner

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
)

// A Factory makes a provisioner from its entry in the configured set. name is
// unique in the set and marks what the provisioner makes. Every fault of the spec is
// reported, joined, each naming its key: see [ReadSpec] and [Faults]. New does not need the backend to be
// reachable and starts no goroutine. If the result is an io.Closer it is closed.
type Factory func(name string, spec json.RawMessage, o Options) (Provisioner, error)

// Options are what a process says of all its provisioners, beside their specs. A provisioner that acts on one of them has it in
// its fingerprint: see [Fingerprinter].
type Options struct {
	RuntimeVersion string // what the version latest means; empty: latest itself
}

// Version returns the version that a runtime is to have: the one that is asked for, and for latest or none what latest means.
func (o Options) Version(args RuntimeArgs) string {
	if args.Version == "" || args.Version == latest {
		return cmp.Or(o.RuntimeVersion, latest)
	}
	return args.Version
}

// Registry maps the type in a configured entry to what makes it.
type Registry map[string]Factory

// Types returns the known types, sorted.
func (r Registry) Types() []string { return slices.Sorted(maps.Keys(r)) }
