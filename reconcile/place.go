package reconcile

import (
	"encoding/json"

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
}

func claimed(r *dbsqlc.PlaceClaimRow) *place {
	p := &place{
		id: r.ID, provisioner: r.Provisioner, typ: *r.Type, name: *r.Name, desired: provisioner.Phase(*r.DesiredPhase), phase: provisioner.Phase(*r.Phase),
		args: r.Args, state: r.State, config: r.Config, fence: r.Fence, failures: int(*r.Failures), lost: int(*r.Lost), takenOver: *r.TakenOver,
	}
	if r.DeploymentID != nil {
		p.deployment = *r.DeploymentID
	}
	return p
}

// resource is the place as a backend sees it. What it does to its copies is looked at afterwards.
func (p *place) resource() *provisioner.Resource {
	return &provisioner.Resource{ID: p.id, Type: provisioner.ResourceType(p.typ), Name: p.name, Fence: p.fence, Args: p.args, State: p.state, Config: p.config}
}
