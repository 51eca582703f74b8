package jobs

import (
	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"berth/internal/defaults"
)

// Shared is the queue that every process works, whatever it has configured. Places of provisioners that no live worker has
// are driven there.
const Shared = "shared"

// Queue names the queue of a provisioner, worked by the processes that have it configured.
func Queue(provisioner string) string { return "provisioner-" + provisioner }

// BackgroundQueue names the queue of what nobody waits for at a provisioner. It has few slots of its own, so that such work, however
// much there is and however long each run takes, keeps nobody from those of the other queue.
func BackgroundQueue(provisioner string) string { return "background-" + provisioner }

// A Wake asks for one run of one place. Kind is one of the Kind constants and says, for people, what the run will do.
type Wake struct {
	Kind         Kind
	ResourceID   uuid.UUID
	Provisioner  string
	DeploymentID uuid.UUID // uuid.Nil for a place that belongs to no deployment any more
	Background   bool      // nobody waits for it: into a queue of its own
	Shared       bool      // into the queue that every process works
}

// Kind is a kind of job that drives a place.
type Kind string

// The kinds. They share one engine: what is done is decided by the row when the run begins, not by the job.
const (
	Provision   Kind = "provision_resource"
	Hibernate   Kind = "hibernate_resource"
	Deprovision Kind = "deprovision_resource"
)

func (w Wake) params() river.InsertManyParams {
	opts := &river.InsertOpts{
		Queue:       Queue(w.Provisioner),
		Priority:    defaults.PriorityIntent,
		MaxAttempts: defaults.JobMaxAttempts,
		Tags:        []string{"provisioner-" + w.Provisioner},
	}
	if w.Background {
		opts.Queue, opts.Priority = BackgroundQueue(w.Provisioner), defaults.PriorityBackground
	}
	if w.Shared {
		opts.Queue = Shared
	}
	if w.DeploymentID != uuid.Nil {
		opts.Tags = append(opts.Tags, "deployment-"+w.DeploymentID.String())
	}
	place := Place{ResourceID: w.ResourceID, Provisioner: w.Provisioner}
	var args river.JobArgs
	switch w.Kind {
	case Hibernate:
		args = HibernateArgs{place}
	case Deprovision:
		args = DeprovisionArgs{place}
	default:
		args = ProvisionArgs{place}
	}
	return river.InsertManyParams{Args: args, InsertOpts: opts}
}
