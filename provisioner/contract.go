// Package provisioner is the contract between Berth and the backends that hold
// resources for it: pools of runtimes, Kubernetes clusters, database servers.
//
// A backend implements [Provisioner] and is made known by a [Factory]. It knows
// nothing of queues, deployments or tables; it sees one [Resource], looks at the
// world, takes what steps it can take now, and says how things stand. The engine
// that calls it owns everything about time: when to call, how long to wait, when
// to give up.
//
// Three rules hold for every method of every backend:
//
//   - Repeat-safe. Any call may be made again, by another process, after a crash at
//     any point in it. Outside names come from [Resource.ProvisionID], so what a lost
//     call made is found by name. Look first, then act.
//   - Never waits. Readiness that takes longer than one exchange with the backend is
//     PhasePending. Calls end when their context does.
//   - Not knowing is not absence. A failed, partial or empty answer is PhaseUnknown
//     or an error, never PhaseAbsent.
package provisioner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
)

// A Provisioner is one named, configured backend. Its methods are safe for
// concurrent use. No two live calls change the same resource at once, but a process that
// stood still may finish an old one late, which must be harmless.
//
// Reconcile, Hibernate and Deprovision have one signature and one meaning of their
// results: the Observation is what is there now, the error is why it is not, and
// will not soon be, what was asked for. Both may be returned together: a resize
// that finds no room returns PhaseReady (at the old size) and [ErrNoCapacity].
// They may set r.State and r.Config; both are stored whatever is returned, so
// work that was done before an error is not forgotten.
type Provisioner interface {
	// Info returns what does not change while this provisioner exists. It is cheap
	// and does not touch the backend.
	Info() Info

	// Reconcile takes steps toward the resource being ready as r.Args asks:
	// creates, resizes, repairs, wakes. It never loses the data of a resource.
	Reconcile(ctx context.Context, r *Resource) (Observation, error)

	// Hibernate takes steps toward the resource costing as little as it can
	// without losing its data. A backend that cannot do better keeps everything
	// and returns PhaseHibernated.
	Hibernate(ctx context.Context, r *Resource) (Observation, error)

	// Deprovision takes steps toward nothing being left, data included. It returns
	// PhaseAbsent only after the backend confirmed it, and succeeds on what was
	// never made. It removes only what this provisioner made: another one may
	// hold things of the same name beside it. It needs no field of r but ID and
	// Type; State and Config may be empty.
	Deprovision(ctx context.Context, r *Resource) (Observation, error)

	// Observe says how the resources stand and changes nothing. The result has one
	// entry per resource, in order; what could not be learned of one is its
	// PhaseUnknown with a Reason. An error means that nothing was learned of any.
	// The caller bounds the batch (at most 500).
	Observe(ctx context.Context, rs []Resource) ([]Observation, error)

	// Check reports the health and the headroom of the backend as a whole. A
	// backend that answers with bad news is a Capacity with Problems; one that
	// does not answer is [ErrUnavailable].
	Check(ctx context.Context) (Capacity, error)
}

// Optional abilities, found by type assertion on a Provisioner.
type (
	// A Watcher pushes. Watch calls changed with the id of each resource of which
	// something changed outside, until ctx ends; it returns early only with an error
	// and is then called again. changed does not block. Missing a change is allowed
	// (Observe finds it later), and so is reporting one that did not happen.
	Watcher interface {
		Watch(ctx context.Context, changed func(uuid.UUID)) error
	}

	// A Lister enumerates everything in the backend that carries this provisioner's
	// mark. A listing that may be incomplete is an error, not a shorter list. Remove
	// deletes exactly this object, by its UID; gone already is success.
	Lister interface {
		List(ctx context.Context) ([]Object, error)
		Remove(ctx context.Context, o Object) error
	}

	// An Activator makes its configuration act (static: writes its hosts). Repeat-safe;
	// called when this process's configuration of it starts to act.
	Activator interface {
		Activate(ctx context.Context) error
	}

	// A Planner says, one line per change, what Reconcile would do, and does nothing.
	Planner interface {
		Plan(ctx context.Context, r Resource) ([]Change, error)
	}

	// A Reserver holds room for a resource that still lives elsewhere, so that a
	// move does not give up one place before it has the next. Repeat-safe;
	// Reconcile uses what is held, Deprovision gives it back.
	Reserver interface {
		Reserve(ctx context.Context, r *Resource) error
	}
)

// A Factory makes a provisioner from its entry in the configured set. name is
// unique in the set and marks what the provisioner makes. Every fault of the spec is
// reported, joined, each naming its key. New does not need the backend to be
// reachable and starts no goroutine. If the result is an io.Closer it is closed.
type Factory func(name string, spec json.RawMessage) (Provisioner, error)

// Registry maps the type in a configured entry to what makes it.
type Registry map[string]Factory

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

// Phase is how a resource stands.
type Phase string

// The zero Phase is read as PhaseUnknown.
const (
	PhaseUnknown    Phase = "unknown"    // could not be learned
	PhaseAbsent     Phase = "absent"     // confirmed: nothing is there
	PhasePending    Phase = "pending"    // on its way to what was asked, no fault seen
	PhaseReady      Phase = "ready"      // seen to serve
	PhaseHibernated Phase = "hibernated" // parked, data kept
)

// An Observation is what was seen at one moment.
type Observation struct {
	Phase   Phase
	Reason  string        // for programs: one CamelCase word, such as ImagePullBackOff; empty when all is well
	Message string        // for people: one line, no secrets
	Drift   []string      // paths of fields of ours that differ from what is asked; the name of a missing object
	After   time.Duration // look again no sooner than this; 0 lets the caller choose
}

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

// RuntimeArgs is what is asked of a resource of type Runtime.
type RuntimeArgs struct {
	Slots       int               `json:"slots"`
	Version     string            `json:"version,omitempty"` // empty: latest
	Environment string            `json:"environment"`
	Annotations map[string]string `json:"annotations,omitempty"` // names of organization, project and so on, for people
}

// RuntimeConfig is how a runtime is reached and what it has in fact.
type RuntimeConfig struct {
	Host         string `json:"host"`
	Audience     string `json:"audience"`
	DataDir      string `json:"data_dir"`
	Slots        int    `json:"slots"`
	Version      string `json:"version,omitempty"`
	CPU          int    `json:"cpu"`
	MemoryGB     int    `json:"memory_gb"`
	StorageBytes int64  `json:"storage_bytes"`
}

// A Slot is the unit of size of a runtime.
type Slot struct {
	CPU       int `json:"cpu"`
	MemoryGB  int `json:"memory_gb"`
	StorageGB int `json:"storage_gb"`
}

// DefaultSlot is used where a spec does not say otherwise.
var DefaultSlot = Slot{CPU: 1, MemoryGB: 4, StorageGB: 40}

// Size fills in what n slots amount to.
func (s Slot) Size(c RuntimeConfig, n int) RuntimeConfig {
	c.Slots, c.CPU, c.MemoryGB = n, n*s.CPU, n*s.MemoryGB
	c.StorageBytes = int64(n) * int64(s.StorageGB) * 1e9
	return c
}

// Capacity is the health and headroom of a backend.
type Capacity struct {
	Hosts    []Host   // where the backend consists of hosts; empty where that has no meaning
	Slots    *int     // in all; nil where it cannot be known
	Used     *int     //
	Problems []string // what a person should look into, one line each
}

// A Host is one member of a pool.
type Host struct {
	Name        string
	Slots, Used int
	Closed      string // why it takes no new resources: cordoned, unhealthy; empty if it does
}

// An Object is something a backend holds.
type Object struct {
	Ref        string    // the backend's own name for it, unique in the provisioner
	UID        string    // the backend's identity of this very object; a new one of the same name has another
	ResourceID uuid.UUID // whose it is by its mark; uuid.Nil if the mark is unreadable
	CreatedAt  time.Time // zero if the backend does not say
}

// A Change is one difference that Reconcile would remove.
type Change struct {
	Ref    string // object
	Action string // create, update, replace, delete
	Detail string // what of it, for people
}

// Decode reads args, state or config: keys it does not know are left alone, because a newer
// process may have written them. Nothing at all is the zero T. The error is an ErrInvalid.
func Decode[T any](raw json.RawMessage) (T, error) { return decode[T](raw, false) }

// DecodeSpec reads a spec: a key it does not know is a fault, because a person mistyped it.
func DecodeSpec[T any](raw json.RawMessage) (T, error) { return decode[T](raw, true) }

func decode[T any](raw json.RawMessage, strict bool) (T, error) {
	var v T
	if len(raw) == 0 {
		return v, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if strict {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(&v); err != nil {
		return v, fmt.Errorf("%w: %w", ErrInvalid, err)
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

// A Secret is a value of a spec that must not be seen. It reads from JSON and prints,
// logs and marshals as three stars; only Reveal gives it out. It is for configuration:
// what is stored in a row goes through Encode and must not contain one.
type Secret struct{ value string }

func (s Secret) Reveal() string               { return s.value }
func (s Secret) String() string               { return "***" }
func (s Secret) GoString() string             { return "***" }
func (s Secret) LogValue() slog.Value         { return slog.StringValue("***") }
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"***"`), nil }
func (s *Secret) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &s.value)
}
