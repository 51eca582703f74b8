package lifecycle

import (
	"cmp"
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"berth/db/dbsqlc"
	"berth/internal/defaults"
	"berth/jobs"
	"berth/provisioner"
)

// A Place is a resource at one provisioner, and the deployment that it belongs to; none for what is only left to be cleaned up.
type Place struct {
	Resource
	DeploymentID *uuid.UUID `json:"deployment_id"`
}

func place(p *dbsqlc.PlaceListRow) Place { return Place{resource(p), p.DeploymentID} }

// PlaceFilter says which places a listing shows. Zero values match all.
type PlaceFilter struct {
	DeploymentID uuid.UUID
	Provisioner  string
	Type         string
	Phase        string // that was seen
	Reason       string
	After        uuid.UUID // the last resource of the page before
	Limit        int       // defaults.Page if zero, at most defaults.MaxPage
}

// Phases are all that a place can be seen in.
var Phases = []provisioner.Phase{provisioner.PhaseUnknown, provisioner.PhaseAbsent, provisioner.PhasePending, provisioner.PhaseReady, provisioner.PhaseHibernated}

// Places shows places in the order of their resources' ids, a page at a time. A page does not part the places of a resource, so it
// may be longer by as many as its last one has.
func (c *Client) Places(ctx context.Context, tx dbsqlc.DBTX, f PlaceFilter) ([]Place, error) {
	err := cmp.Or(checkLimit(f.Limit), checkFilter("provisioner", f.Provisioner, provisioner.ValidName(f.Provisioner) == nil),
		checkFilter("type", f.Type, typeForm.MatchString(f.Type)), checkFilter("reason", f.Reason, reasonForm.MatchString(f.Reason)))
	if err != nil {
		return nil, err
	}
	p := &dbsqlc.PlacePageParams{
		Provisioner: optional(f.Provisioner), Type: optional(f.Type), Phase: optional(f.Phase), Reason: optional(f.Reason),
		After: f.After, Most: int32(cmp.Or(f.Limit, defaults.Page)),
	}
	if f.DeploymentID != uuid.Nil {
		p.DeploymentID = &f.DeploymentID
	}
	rows, err := c.q.PlacePage(ctx, tx, p)
	if err != nil {
		return nil, stored(err, "list places")
	}
	out := make([]Place, len(rows))
	for i, r := range rows {
		out[i] = place((*dbsqlc.PlaceListRow)(r))
	}
	return out, nil
}

// PlacesOf shows every place of a resource, the current one first.
func (c *Client) PlacesOf(ctx context.Context, tx dbsqlc.DBTX, id uuid.UUID) ([]Place, error) {
	rows, err := c.q.PlaceGet(ctx, tx, id)
	if err != nil {
		return nil, stored(err, "find a resource")
	}
	if len(rows) == 0 {
		return nil, noResource(id)
	}
	out := make([]Place, len(rows))
	for i, r := range rows {
		out[i] = place((*dbsqlc.PlaceListRow)(r))
	}
	return out, nil
}

// Reconcile has resources looked at again now, with the priority of a change of intent, however they stand: settled, failing, given
// up, on their way out. It wishes nothing else of them and takes nothing back: failures stay counted. Repeated before the look, it
// leads to one. What is paused, or whose provisioner is missing, still waits for that.
func (c *Client) Reconcile(ctx context.Context, tx pgx.Tx, ids ...uuid.UUID) error {
	ids = sorted(ids)
	if len(ids) == 0 {
		return nil
	}
	deployments, owned, err := c.owners(ctx, tx, ids)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if _, known := owned[id]; !known {
			return noResource(id)
		}
	}
	if _, err := c.q.DeploymentLock(ctx, tx, deployments); err != nil { // before their places, as everywhere
		return stored(err, "lock deployments")
	}
	rows, err := c.q.PlaceReconcile(ctx, tx, &dbsqlc.PlaceReconcileParams{Ids: ids, Grace: patience(len(ids)), MissingFor: defaults.MissingFor})
	if err != nil {
		return stored(err, "wake places")
	}
	wakes, events := make([]jobs.Wake, len(rows)), make([]Event, len(rows))
	for i, r := range rows {
		wakes[i] = wake(r.ID, r.Provisioner, r.DeploymentID, r.DesiredPhase)
		wakes[i].Shared = r.Missing
		events[i] = Event{DeploymentID: wakes[i].DeploymentID, ResourceID: r.ID, Kind: ReconcileAsked, Detail: map[string]any{"provisioner": r.Provisioner}}
	}
	if err := c.record(ctx, tx, events); err != nil {
		return err
	}
	return stored(c.jobs.Wake(ctx, tx, wakes), "wake places")
}

func noResource(id uuid.UUID) error {
	return refuse(ErrNotFound, fmt.Sprintf("resource %s", id), "it does not exist", "see the list of resources")
}
