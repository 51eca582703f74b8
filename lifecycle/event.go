package lifecycle

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"berth/db/dbsqlc"
	"berth/internal/defaults"
)

// Kinds of events. Consumers read them in the order of their ids, within defaults.EventsKept; the same one may be told twice.
const (
	DeploymentCreated  = "DeploymentCreated" // by a person or a service, as the next seven
	StartAsked         = "StartAsked"
	StopAsked          = "StopAsked"
	RestartAsked       = "RestartAsked"
	UpdateAsked        = "UpdateAsked"
	DeleteAsked        = "DeleteAsked"
	ResourceAsked      = "ResourceAsked"
	ReconcileAsked     = "ReconcileAsked"
	StateChanged       = "StateChanged"      // old, new, reason
	DeploymentDeleted  = "DeploymentDeleted" // nothing of it is left, debts aside
	RuntimePublished   = "RuntimePublished"  // host, audience, instance_id, provisioner: the instance may be created there
	RuntimeRemoved     = "RuntimeRemoved"    // host, instance_id, provisioner: the runtime does not hold it any more
	ConfigChanged      = "ConfigChanged"     // what clients need to reach a resource has changed
	WorkerLost         = "WorkerLost"        // a place was set aside
	DebtLeft           = "DebtLeft"          // a deployment went on without a place that could not be cleaned up yet
	ResourcePaused     = "ResourcePaused"    // provisioner: nothing is made, repaired or restarted there
	ResourceResumed    = "ResourceResumed"
	ProvisionerPaused  = "ProvisionerPaused" // provisioner: the same for all that it has. Of no deployment
	ProvisionerResumed = "ProvisionerResumed"
)

// An Event is one thing that happened.
type Event struct {
	DeploymentID uuid.UUID // uuid.Nil for none
	ResourceID   uuid.UUID // uuid.Nil for none
	Kind         string
	Detail       map[string]any // holds no secret
}

func (c *Client) record(ctx context.Context, tx dbsqlc.DBTX, events []Event) error {
	if len(events) == 0 {
		return nil
	}
	p := &dbsqlc.EventInsertParams{Actor: c.actor}
	for _, e := range events {
		detail := json.RawMessage(`{}`)
		if len(e.Detail) > 0 {
			var err error
			if detail, err = json.Marshal(e.Detail); err != nil {
				return stored(err, "encode an event")
			}
		}
		p.DeploymentIds = append(p.DeploymentIds, e.DeploymentID)
		p.ResourceIds = append(p.ResourceIds, e.ResourceID)
		p.Kinds = append(p.Kinds, e.Kind)
		p.Details = append(p.Details, detail)
	}
	return stored(c.q.EventInsert(ctx, tx, p), "record events")
}

// A Happening is an event as it was recorded.
type Happening struct {
	ID           int64           `json:"id"`
	At           time.Time       `json:"at"`
	DeploymentID *uuid.UUID      `json:"deployment_id"`
	ResourceID   *uuid.UUID      `json:"resource_id"`
	Kind         string          `json:"kind"`
	Actor        string          `json:"actor"`
	Detail       json.RawMessage `json:"detail"`
}

// WasDeleted reports whether there was such a deployment, and it was deleted.
func (c *Client) WasDeleted(ctx context.Context, tx dbsqlc.DBTX, deployment uuid.UUID) (bool, error) {
	gone, err := c.q.EventDeleted(ctx, tx, []uuid.UUID{deployment})
	return len(gone) > 0, stored(err, "look for a deleted deployment")
}

// Events lists what happened to a deployment, oldest first, a page at a time: so many, or defaults.Page if zero, after the id of an
// event, as far as they are kept. It answers for deleted ones too.
func (c *Client) Events(ctx context.Context, tx dbsqlc.DBTX, deployment uuid.UUID, after int64, limit int) ([]Happening, error) {
	if err := checkLimit(limit); err != nil {
		return nil, err
	}
	rows, err := c.q.EventList(ctx, tx, &dbsqlc.EventListParams{DeploymentID: &deployment, After: after, Most: int32(cmp.Or(limit, defaults.Page))})
	if err != nil {
		return nil, stored(err, "list events")
	}
	out := make([]Happening, len(rows))
	for i, r := range rows {
		out[i] = Happening{r.ID, r.At.UTC(), r.DeploymentID, r.ResourceID, r.Kind, r.Actor, r.Detail}
	}
	return out, nil
}
