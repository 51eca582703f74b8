package lifecycle

import (
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"berth/db/dbsqlc"
	"berth/jobs"
)

// PauseProvisioner holds what is to be made, repaired or restarted at a provisioner, and the clock of its deadlines. Stop, delete
// and debts go on, and so does a step that is under way. What is so already counts as done.
func (c *Client) PauseProvisioner(ctx context.Context, tx pgx.Tx, name string) error {
	if err := c.checkRegistered(ctx, tx, name); err != nil {
		return err
	}
	n, err := c.q.ProvisionerPause(ctx, tx, name)
	if err != nil {
		return stored(err, "pause a provisioner")
	}
	if n == 0 {
		return nil
	}
	return c.record(ctx, tx, []Event{{Kind: ProvisionerPaused, Detail: map[string]any{"provisioner": name}}})
}

// ResumeProvisioner ends the pause of a provisioner. What it held is due at once, in the order in which it was asked for, as many
// at a time as the queue works; what is left of a deadline is what was left when the pause began. What is so already counts as done.
func (c *Client) ResumeProvisioner(ctx context.Context, tx pgx.Tx, name string) error {
	if err := c.checkRegistered(ctx, tx, name); err != nil {
		return err
	}
	since, err := c.q.ProvisionerResume(ctx, tx, name)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return stored(err, "resume a provisioner")
	}
	if err := c.q.PlaceResumed(ctx, tx, &dbsqlc.PlaceResumedParams{Provisioner: name, Since: since}); err != nil {
		return stored(err, "have what was held go on")
	}
	return c.record(ctx, tx, []Event{{Kind: ProvisionerResumed, Detail: map[string]any{"provisioner": name}}})
}

// PauseResource does for resources what PauseProvisioner does for all of a provisioner's.
func (c *Client) PauseResource(ctx context.Context, tx pgx.Tx, ids ...uuid.UUID) error {
	l, ids, err := c.lockOwners(ctx, tx, ids)
	if err != nil || len(ids) == 0 {
		return err
	}
	rows, err := c.q.PlacePause(ctx, tx, &dbsqlc.PlacePauseParams{Ids: ids, Locked: l.ids})
	if err != nil {
		return stored(err, "pause resources")
	}
	events := make([]Event, len(rows))
	for i, r := range rows {
		events[i] = Event{DeploymentID: *r.DeploymentID, ResourceID: r.ID, Kind: ResourcePaused, Detail: map[string]any{"provisioner": r.Provisioner}}
	}
	return c.Settle(ctx, tx, l.ids, events, nil)
}

// ResumeResource ends the pause of resources. What it held is driven at once.
func (c *Client) ResumeResource(ctx context.Context, tx pgx.Tx, ids ...uuid.UUID) error {
	l, ids, err := c.lockOwners(ctx, tx, ids)
	if err != nil || len(ids) == 0 {
		return err
	}
	rows, err := c.q.PlaceResume(ctx, tx, &dbsqlc.PlaceResumeParams{Ids: ids, Locked: l.ids})
	if err != nil {
		return stored(err, "resume resources")
	}
	var wakes []jobs.Wake
	events := make([]Event, len(rows))
	for i, r := range rows {
		events[i] = Event{DeploymentID: *r.DeploymentID, ResourceID: r.ID, Kind: ResourceResumed, Detail: map[string]any{"provisioner": r.Provisioner}}
		if r.Waiting {
			wakes = append(wakes, wake(r.ID, r.Provisioner, r.DeploymentID, r.DesiredPhase))
		}
	}
	return c.Settle(ctx, tx, l.ids, events, wakes)
}

// lockOwners takes the deployments of resources, and returns these in their order.
func (c *Client) lockOwners(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) (locked, []uuid.UUID, error) {
	ids = sorted(ids)
	if len(ids) == 0 {
		return locked{}, nil, nil
	}
	deployments, owned, err := c.owners(ctx, tx, ids)
	if err != nil {
		return locked{}, nil, err
	}
	for _, id := range ids {
		switch belongs, known := owned[id]; {
		case !known:
			return locked{}, nil, noResource(id)
		case !belongs:
			return locked{}, nil, refuse(ErrConflict, "resource "+id.String(), "its deployment is gone, and it is only cleaned up any more", "leave it alone")
		}
	}
	l, err := c.lock(ctx, tx, deployments, false)
	return l, ids, err
}

// owners are the deployments of resources, and of each resource that is known whether it belongs to one yet.
func (c *Client) owners(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) (deployments []uuid.UUID, owned map[uuid.UUID]bool, err error) {
	rows, err := c.q.PlaceOwners(ctx, tx, ids)
	if err != nil {
		return nil, nil, stored(err, "find the deployments of resources")
	}
	owned = make(map[uuid.UUID]bool, len(ids))
	for _, r := range rows {
		owned[r.ID] = owned[r.ID] || r.DeploymentID != nil
		if r.DeploymentID != nil {
			deployments = append(deployments, *r.DeploymentID)
		}
	}
	return deployments, owned, nil
}

// checkRegistered refuses a provisioner that nobody knows.
func (c *Client) checkRegistered(ctx context.Context, tx dbsqlc.DBTX, name string) error {
	known, err := c.Provisioners(ctx, tx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(known, func(k Known) bool { return k.Name == name }) {
		return nil
	}
	return refuse(ErrNotFound, "provisioner "+quote(name), "it is not registered", "see the list of provisioners")
}
