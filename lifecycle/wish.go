package lifecycle

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"berth/db/dbsqlc"
	"berth/jobs"
)

// Start has deployments run. One that runs, or is on its way, is left alone; one that failed is tried again now.
func (c *Client) Start(ctx context.Context, tx pgx.Tx, ids ...uuid.UUID) error {
	return c.want(ctx, tx, Running, StartAsked, ids, func(d *dbsqlc.DeploymentLockRow) string {
		if d.DesiredState == Running { // its resources may be wished parked, by a restart, which goes on by itself
			return phaseAsItIs
		}
		return phaseReady
	})
}

// Stop has deployments cost as little as they can without losing their data.
func (c *Client) Stop(ctx context.Context, tx pgx.Tx, ids ...uuid.UUID) error {
	return c.want(ctx, tx, Stopped, StopAsked, ids, func(*dbsqlc.DeploymentLockRow) string { return phaseHibernated })
}

// Restart stops the resources of deployments and starts them again. A stopped deployment is started; a resource whose restart is
// under way is left alone.
func (c *Client) Restart(ctx context.Context, tx pgx.Tx, ids ...uuid.UUID) error {
	return c.want(ctx, tx, Running, RestartAsked, ids, func(d *dbsqlc.DeploymentLockRow) string {
		if d.DesiredState == Stopped {
			return phaseReady
		}
		return phaseHibernated
	})
}

// Delete has deployments and everything that they hold go. What is gone already counts as done. Once it was asked, every other
// call is a conflict.
func (c *Client) Delete(ctx context.Context, tx pgx.Tx, ids ...uuid.UUID) error {
	l, err := c.lock(ctx, tx, ids, true)
	if err != nil || len(l.ids) == 0 {
		return err
	}
	asked, err := c.q.DeploymentWant(ctx, tx, &dbsqlc.DeploymentWantParams{Ids: l.ids, DesiredState: Deleted})
	if err != nil {
		return stored(err, "wish deployments deleted")
	}
	rows, err := c.q.PlaceWishAbsent(ctx, tx, &dbsqlc.PlaceWishAbsentParams{DeploymentIds: l.ids, Grace: patience(len(l.ids))})
	if err != nil {
		return stored(err, "wish places absent")
	}
	wakes := make([]jobs.Wake, len(rows))
	for i, r := range rows {
		wakes[i] = wake(r.ID, r.Provisioner, r.DeploymentID, r.DesiredPhase)
		asked = append(asked, *r.DeploymentID)
	}
	return c.Settle(ctx, tx, l.ids, eventsFor(DeleteAsked, sorted(asked)), wakes)
}

// phaseAsItIs keeps what is wished of places and tries again those that fail.
const phaseAsItIs = ""

// want changes what is wished of deployments, and of their places to the phase that each deployment gives.
func (c *Client) want(ctx context.Context, tx pgx.Tx, state, kind string, ids []uuid.UUID, phase func(*dbsqlc.DeploymentLockRow) string) error {
	l, err := c.lock(ctx, tx, ids, false)
	if err != nil || len(l.ids) == 0 {
		return err
	}
	asked, err := c.q.DeploymentWant(ctx, tx, &dbsqlc.DeploymentWantParams{Ids: l.ids, DesiredState: state})
	if err != nil {
		return stored(err, "wish deployments "+state)
	}
	p := &dbsqlc.PlaceWishParams{DeploymentIds: l.ids, DesiredPhases: make([]string, len(l.rows)), Grace: patience(len(l.ids))}
	for i, d := range l.rows {
		p.DesiredPhases[i] = phase(d)
	}
	rows, err := c.q.PlaceWish(ctx, tx, p)
	if err != nil {
		return stored(err, "change what is wished of places")
	}
	wakes := make([]jobs.Wake, len(rows))
	for i, r := range rows {
		wakes[i] = wake(r.ID, r.Provisioner, r.DeploymentID, r.DesiredPhase)
		asked = append(asked, *r.DeploymentID)
	}
	return c.Settle(ctx, tx, l.ids, eventsFor(kind, sorted(asked)), wakes)
}

func eventsFor(kind string, deployments []uuid.UUID) []Event {
	events := make([]Event, len(deployments))
	for i, id := range deployments {
		events[i] = Event{DeploymentID: id, Kind: kind}
	}
	return events
}

// locked is what a call holds: deployments in the order of their ids.
type locked struct {
	rows []*dbsqlc.DeploymentLockRow
	ids  []uuid.UUID
}

// lock takes the deployments that a call is about. With deleting, what was deleted is left out, and what is being deleted is
// no conflict.
func (c *Client) lock(ctx context.Context, tx pgx.Tx, ids []uuid.UUID, deleting bool) (locked, error) {
	var l locked
	ids = sorted(ids)
	if deleting {
		rows, err := c.q.DeploymentLockDelete(ctx, tx, ids)
		if err != nil {
			return l, stored(err, "lock deployments")
		}
		for _, r := range rows {
			l.rows = append(l.rows, (*dbsqlc.DeploymentLockRow)(r))
		}
	} else {
		var err error
		if l.rows, err = c.q.DeploymentLock(ctx, tx, ids); err != nil {
			return l, stored(err, "lock deployments")
		}
	}
	known := make(map[uuid.UUID]bool, len(ids))
	for _, r := range l.rows {
		if r.DesiredState == Deleted && !deleting {
			return l, refuse(ErrConflict, "deployment "+r.ID.String(), "it is being deleted", "create a new one")
		}
		l.ids = append(l.ids, r.ID)
		known[r.ID] = true
	}
	if len(known) == len(ids) {
		return l, nil
	}
	if deleting {
		deleted, err := c.q.EventDeleted(ctx, tx, ids)
		if err != nil {
			return l, stored(err, "look for deleted deployments")
		}
		for _, id := range deleted {
			known[id] = true
		}
	}
	for _, id := range ids {
		if !known[id] {
			return l, refuse(ErrNotFound, "deployment "+id.String(), "it does not exist", "see the list of deployments")
		}
	}
	return l, nil
}
