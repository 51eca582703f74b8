package provisioner

import (
	"context"

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

	// A Describer tells its configuration as it acts, defaults filled in, for people to look at. It is marshalled to JSON, so
	// a Secret in it stays one.
	Describer interface {
		Spec() any
	}

	// A Warner has something to say of its configuration that is no fault and hardly meant. The paths begin at its spec.
	Warner interface {
		Warnings() Faults
	}

	// A Fingerprinter has configuration beside its spec, such as templates in files. The fingerprint changes when any of it
	// does, and with nothing else; two processes with the same configuration have the same one.
	Fingerprinter interface {
		Fingerprint() string
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
