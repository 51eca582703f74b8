package provisioner

import (
	"encoding/json"
	"strings"

	"github.com/google/uuid"
)

// ResourceType is the kind of a resource; it decides the shape of Args and Config.
type ResourceType string

// Runtime is an instance on a runtime: [RuntimeArgs] in, [RuntimeConfig] out.
const Runtime ResourceType = "runtime"

// A Resource is one thing that a deployment needs from a backend.
type Resource struct {
	ID   uuid.UUID    // never changes, moves included
	Type ResourceType //
	Name string       // unique per deployment and type, often empty
	// Fence is this run's token. A backend whose store can compare passes it on with
	// every write, so that a run which lost its lease changes nothing.
	Fence uuid.UUID
	Args  json.RawMessage // what is asked for, shaped by Type; read only
	// State is the provisioner's private notes, never shown to clients.
	State json.RawMessage
	// Config is how clients reach the resource, shaped by Type. It holds no secret.
	Config json.RawMessage
}

// ProvisionID returns the id without dashes: the stem of every outside name, and the
// runtime's instance id.
func (r Resource) ProvisionID() string { return strings.ReplaceAll(r.ID.String(), "-", "") }
