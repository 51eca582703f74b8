package provisioner

import (
	"time"

	"github.com/google/uuid"
)

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
