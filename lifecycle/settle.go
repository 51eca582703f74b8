package lifecycle

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"berth/db/dbsqlc"
	"berth/internal/defaults"
	"berth/jobs"
)

// Settle derives and stores the state of deployments that the caller has locked, and records each change of it. The places of
// a restart that are parked are wished ready again. A deployment that is to be deleted and has no place left goes, so the
// caller holds FOR UPDATE on what may. Further events and wakes are stored along with those that follow from it.
func (c *Client) Settle(ctx context.Context, tx pgx.Tx, deployments []uuid.UUID, events []Event, wakes []jobs.Wake) error {
	rows, err := c.q.DeploymentSettleRead(ctx, tx, &dbsqlc.DeploymentSettleReadParams{Ids: deployments, MissingFor: defaults.MissingFor})
	if err != nil {
		return stored(err, "read how places stand")
	}
	var gone, restarted []uuid.UUID
	write := &dbsqlc.DeploymentSettleWriteParams{}
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n].ID == rows[0].ID {
			n++
		}
		d, places := rows[0], rows[:n]
		rows = rows[n:]
		if d.ResourceID == nil {
			places = nil
		}
		if d.DesiredState == Deleted && len(places) == 0 {
			gone = append(gone, d.ID)
			events = append(events, Event{DeploymentID: d.ID, Kind: DeploymentDeleted})
			continue
		}
		standings := make([]Standing, len(places))
		for i, p := range places {
			s := Standing{*p.DesiredPhase, *p.Phase, p.Observed, p.GivenUp, p.Overdue, p.Missing}
			if d.DesiredState == Running && s.Desired == phaseHibernated && s.Settled() {
				restarted = append(restarted, *p.ResourceID)
			}
			standings[i] = s
		}
		if state := State(d.DesiredState, standings); state != d.State {
			write.Ids, write.States = append(write.Ids, d.ID), append(write.States, state)
			events = append(events, Event{DeploymentID: d.ID, Kind: StateChanged, Detail: map[string]any{
				"old": d.State, "new": state, "reason": reason(d.DesiredState, places),
			}})
		}
	}
	if len(restarted) > 0 {
		woken, err := c.q.PlaceWishRestarted(ctx, tx, &dbsqlc.PlaceWishRestartedParams{Ids: restarted, Grace: patience(len(restarted))})
		if err != nil {
			return stored(err, "wake what was restarted")
		}
		for _, p := range woken {
			wakes = append(wakes, wake(p.ID, p.Provisioner, p.DeploymentID, p.DesiredPhase))
		}
	}
	var last []step
	if len(write.Ids) > 0 {
		last = append(last, func(db dbsqlc.DBTX) error { return stored(c.q.DeploymentSettleWrite(ctx, db, write), "store states") })
	}
	if len(gone) > 0 {
		last = append(last, func(db dbsqlc.DBTX) error { return stored(c.q.DeploymentDelete(ctx, db, gone), "let deployments go") })
	}
	if len(events) > 0 {
		last = append(last, func(db dbsqlc.DBTX) error { return c.record(ctx, db, events) })
	}
	if err := together(ctx, tx, last...); err != nil {
		return err
	}
	return stored(c.jobs.Wake(ctx, tx, wakes), "wake places")
}

// reason is the first that a place gives which counts.
func reason(desired string, places []*dbsqlc.DeploymentSettleReadRow) string {
	for _, p := range places {
		if p.Reason != "" && (desired == Deleted || *p.DesiredPhase != phaseAbsent) {
			return p.Reason
		}
	}
	return ""
}

// wake is the job that a change of intent of a place needs.
func wake(id uuid.UUID, provisioner string, deployment *uuid.UUID, desired string) jobs.Wake {
	w := jobs.Wake{Kind: KindFor(desired), ResourceID: id, Provisioner: provisioner}
	if deployment != nil {
		w.DeploymentID = *deployment
	}
	return w
}

// KindFor names the job that leads to a phase.
func KindFor(desired string) jobs.Kind {
	switch desired {
	case phaseHibernated:
		return jobs.Hibernate
	case phaseAbsent:
		return jobs.Deprovision
	}
	return jobs.Provision
}
