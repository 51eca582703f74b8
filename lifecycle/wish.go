package lifecycle

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"berth/db/dbsqlc"
	"berth/internal/defaults"
	"berth/jobs"
)

// Start has deployments run. One that runs, or is on its way, is left alone; one that failed is tried again now.
func (c *Client) Start(ctx context.Context, tx pgx.Tx, ids ...uuid.UUID) error {
	locked, err := c.lock(ctx, tx, ids, false)
	if err != nil {
		return err
	}
	// A restart under way has its places wished hibernated while the deployment runs: it goes on by itself.
	return c.want(ctx, tx, Running, phaseReady, StartAsked, locked.ids, locked.with(func(d *dbsqlc.DeploymentLockRow) bool { return d.DesiredState != Running }),
		locked.with(func(d *dbsqlc.DeploymentLockRow) bool { return d.DesiredState == Running }))
}

// Stop has deployments cost as little as they can without losing their data.
func (c *Client) Stop(ctx context.Context, tx pgx.Tx, ids ...uuid.UUID) error {
	locked, err := c.lock(ctx, tx, ids, false)
	if err != nil {
		return err
	}
	return c.want(ctx, tx, Stopped, phaseHibernated, StopAsked, locked.ids, locked.ids, nil)
}

// Restart stops the resources of deployments and starts them again. A stopped deployment is started; a restart under way is
// left alone.
func (c *Client) Restart(ctx context.Context, tx pgx.Tx, ids ...uuid.UUID) error {
	locked, err := c.lock(ctx, tx, ids, false)
	if err != nil {
		return err
	}
	stopped := locked.with(func(d *dbsqlc.DeploymentLockRow) bool { return d.DesiredState == Stopped })
	running := locked.with(func(d *dbsqlc.DeploymentLockRow) bool { return d.DesiredState == Running })
	if len(stopped) > 0 {
		if err := c.want(ctx, tx, Running, phaseReady, RestartAsked, stopped, stopped, nil); err != nil {
			return err
		}
	}
	if len(running) == 0 {
		return nil
	}
	return c.want(ctx, tx, Running, phaseHibernated, RestartAsked, running, running, nil)
}

// Delete has deployments and everything that they hold go. What is gone already counts as done. Once it was asked, every other
// call is a conflict.
func (c *Client) Delete(ctx context.Context, tx pgx.Tx, ids ...uuid.UUID) error {
	locked, err := c.lock(ctx, tx, ids, true)
	if err != nil || len(locked.ids) == 0 {
		return err
	}
	asked, err := c.q.DeploymentWant(ctx, tx, &dbsqlc.DeploymentWantParams{Ids: locked.ids, DesiredState: Deleted})
	if err != nil {
		return stored(err, "wish deployments deleted")
	}
	rows, err := c.q.PlaceWishAbsent(ctx, tx, &dbsqlc.PlaceWishAbsentParams{DeploymentIds: locked.ids, Grace: defaults.Grace})
	if err != nil {
		return stored(err, "wish places absent")
	}
	wakes := make([]jobs.Wake, len(rows))
	for i, r := range rows {
		wakes[i] = wake(r.ID, r.Provisioner, r.DeploymentID, r.DesiredPhase)
	}
	return c.Settle(ctx, tx, locked.ids, eventsFor(DeleteAsked, asked), wakes)
}

// want changes the wish of deployments whose locks are held. The places of those in all get the phase; of those in failing only
// the ones that fail.
func (c *Client) want(ctx context.Context, tx pgx.Tx, state, phase, kind string, ids, all, failing []uuid.UUID) error {
	asked, err := c.q.DeploymentWant(ctx, tx, &dbsqlc.DeploymentWantParams{Ids: ids, DesiredState: state})
	if err != nil {
		return stored(err, "wish deployments "+state)
	}
	var wakes []jobs.Wake
	if len(all) > 0 {
		rows, err := c.q.PlaceWish(ctx, tx, &dbsqlc.PlaceWishParams{DeploymentIds: all, DesiredPhase: phase, Grace: defaults.Grace})
		if err != nil {
			return stored(err, "wish places "+phase)
		}
		for _, r := range rows {
			wakes = append(wakes, wake(r.ID, r.Provisioner, r.DeploymentID, r.DesiredPhase))
			asked = append(asked, *r.DeploymentID)
		}
	}
	if len(failing) > 0 {
		rows, err := c.q.PlaceTryAgain(ctx, tx, &dbsqlc.PlaceTryAgainParams{DeploymentIds: failing, Grace: defaults.Grace})
		if err != nil {
			return stored(err, "try places again")
		}
		for _, r := range rows {
			wakes = append(wakes, wake(r.ID, r.Provisioner, r.DeploymentID, r.DesiredPhase))
			asked = append(asked, *r.DeploymentID)
		}
	}
	return c.Settle(ctx, tx, ids, eventsFor(kind, sorted(asked)), wakes)
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

func (l locked) with(is func(*dbsqlc.DeploymentLockRow) bool) []uuid.UUID {
	var out []uuid.UUID
	for _, r := range l.rows {
		if is(r) {
			out = append(out, r.ID)
		}
	}
	return out
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
	var deleted []uuid.UUID
	for _, r := range l.rows {
		if r.DesiredState == Deleted && !deleting {
			return l, refuse(ErrConflict, "deployment "+r.ID.String(), "it is being deleted", "create a new one")
		}
		l.ids = append(l.ids, r.ID)
	}
	if len(l.ids) == len(ids) {
		return l, nil
	}
	if deleting {
		var err error
		if deleted, err = c.q.EventDeleted(ctx, tx, ids); err != nil {
			return l, stored(err, "look for deleted deployments")
		}
	}
	for _, id := range ids {
		if !slices.Contains(l.ids, id) && !slices.Contains(deleted, id) {
			return l, refuse(ErrNotFound, "deployment "+id.String(), "it does not exist", "see the list of deployments")
		}
	}
	return l, nil
}
