package reconcile

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"berth/db/dbsqlc"
	"berth/provisioner"
)

// place is one that this process has claimed.
type place struct {
	id          uuid.UUID
	provisioner string
	deployment  uuid.UUID // uuid.Nil: it belongs to none
	typ, name   string
	desired     provisioner.Phase
	phase       provisioner.Phase
	args        json.RawMessage
	state       json.RawMessage
	config      json.RawMessage
	fence       uuid.UUID
	failures    int
	lost        int
	takenOver   bool
	overdue     bool      // past its deadline
	until       time.Time // this process may act on it until then
}

func claimed(r *dbsqlc.PlaceClaimRow) *place {
	p := &place{
		id: r.ID, provisioner: r.Provisioner, typ: *r.Type, name: *r.Name, desired: provisioner.Phase(*r.DesiredPhase), phase: provisioner.Phase(*r.Phase),
		args: r.Args, state: r.State, config: r.Config, fence: r.Fence, failures: int(*r.Failures), lost: int(*r.Lost), takenOver: *r.TakenOver, overdue: r.Overdue,
	}
	if r.DeploymentID != nil {
		p.deployment = *r.DeploymentID
	}
	return p
}

// resource is the place as a backend sees it. It gets copies to do with as it likes.
func (p *place) resource() *provisioner.Resource {
	return &provisioner.Resource{
		ID: p.id, Type: provisioner.ResourceType(p.typ), Name: p.name, Fence: p.fence,
		Args: bytes.Clone(p.args), State: bytes.Clone(p.state), Config: bytes.Clone(p.config),
	}
}
