package jobs

import (
	"context"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"berth/internal/defaults"
)

// Place is what every job that drives a place carries: ids, and nothing that Postgres already knows.
type Place struct {
	ResourceID  uuid.UUID `json:"resource_id"`
	Provisioner string    `json:"provisioner"`
}

type (
	// ProvisionArgs are the arguments of the kind Provision.
	ProvisionArgs struct{ Place }
	// HibernateArgs are the arguments of the kind Hibernate.
	HibernateArgs struct{ Place }
	// DeprovisionArgs are the arguments of the kind Deprovision.
	DeprovisionArgs struct{ Place }
)

// Kind names the kind of job, as River stores it.
func (ProvisionArgs) Kind() string { return string(Provision) }

// Kind names the kind of job, as River stores it.
func (HibernateArgs) Kind() string { return string(Hibernate) }

// Kind names the kind of job, as River stores it.
func (DeprovisionArgs) Kind() string { return string(Deprovision) }

// A Driver takes one step with a place, if there is one to take. Repeat-safe; an error is retried by River and means no more
// than that: the driver's own records say what happens next.
type Driver interface {
	Drive(ctx context.Context, resource uuid.UUID, provisioner string) error
	// DriveBackground does it for what nobody waits for.
	DriveBackground(ctx context.Context, resource uuid.UUID, provisioner string) error
}

type placed interface {
	river.JobArgs
	place() Place
}

func (p Place) place() Place { return p }

type placeWorker[T placed] struct {
	river.WorkerDefaults[T]
	driver Driver
}

func (w *placeWorker[T]) Work(ctx context.Context, job *river.Job[T]) error {
	p := job.Args.place()
	if job.Priority >= defaults.PriorityBackground {
		return w.driver.DriveBackground(ctx, p.ResourceID, p.Provisioner)
	}
	return w.driver.Drive(ctx, p.ResourceID, p.Provisioner)
}
