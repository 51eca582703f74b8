package kubernetes

import (
	"strings"

	"github.com/google/uuid"

	"berth/provisioner"
)

// notes is the state of a resource.
//
// # Late writes
//
// A worker may stand still before a request and send it when others have gone on. What it makes then has an owner that is gone, if the
// resource was hibernated, deleted or woken meanwhile, and is collected; what it would change or delete has another uid by then. Where
// nothing was made anew, the version of an object is all that can refuse it. So whoever changes what is there says so before, in Write,
// and marks each object with it. Whoever finds in Write what an object does not have can not know whether the change is still to come:
// it writes the object itself, and its version is another one then. A token is used for one change of each object only.
//
// The same goes for Leaving: it is noted before the first delete, and who finds it finishes the deleting before anything is made again.
type notes struct {
	Anchor  string            `json:"anchor,omitempty"`  // uid of the anchor seen last
	Write   string            `json:"write,omitempty"`   // token of the last change of what was there
	Leaving provisioner.Phase `json:"leaving,omitempty"` // deleting began, for this
	Kinds   []string          `json:"kinds,omitempty"`   // of what there was then: the anchor, which names them, goes first
	Parked  bool              `json:"parked,omitempty"`  // it was hibernated
	Asked   string            `json:"asked,omitempty"`   // for what all objects were made as they are
	Disk    string            `json:"disk,omitempty"`    // key of the disk whose size is told
	Seen    map[string]seen   `json:"seen,omitempty"`    // objects as we applied them, by their keys
	Quotas  string            `json:"quotas,omitempty"`  // how they stood when no pod could be made

	Contests map[string][]contest `json:"contests,omitempty"` // what others write too, by the keys of the objects
}

// seen is an object after it was applied: our mark on it, and a digest of the fields that were ours then. Whoever takes one from us, by
// changing or removing it, changes that.
type seen struct {
	Mark    string `json:"mark"`
	Ours    string `json:"ours"`
	Version string `json:"version,omitempty"`
}

// readNotes reads what was noted. What can not be read is what nobody noted.
func readNotes(r *provisioner.Resource) *notes {
	n, _ := provisioner.Decode[notes](r.State)
	if n.Seen == nil {
		n.Seen = map[string]seen{}
	}
	return &n
}

func (n *notes) save(r *provisioner.Resource) { r.State = provisioner.Encode(n) }

// leave begins a deletion of what was seen.
func (n *notes) leave(phase provisioner.Phase, l *live) {
	n.Leaving, n.Kinds = phase, nil
	for _, kind := range l.kinds {
		n.Kinds = append(n.Kinds, kindName(kind))
	}
}

// newToken begins a change of what is there.
func (n *notes) newToken() { n.Write = strings.ReplaceAll(uuid.NewString(), "-", "")[:12] }
