package lifecycle

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"berth/db/dbsqlc"
	"berth/jobs"
	"berth/provisioner"
)

// NewDeployment is what a deployment is made of. Zero values take what the project says.
type NewDeployment struct {
	ID          uuid.UUID // chosen by the caller: the same id again is the same deployment
	ProjectID   uuid.UUID
	Environment string // "prod" if empty
	Slots       int
	Version     string
	Annotations map[string]string // beside the project's, which they replace where the keys are the same
}

// Create makes deployments that are to run, each with its runtime, and the jobs that lead there. Repeated with the same ids it
// changes nothing, whatever else it says of them by then. It is a conflict if an id belongs to another project or environment, or
// to a deployment that is being or was deleted.
func (c *Client) Create(ctx context.Context, tx pgx.Tx, deployments ...NewDeployment) error {
	if len(deployments) == 0 {
		return nil
	}
	ds := slices.Clone(deployments)
	slices.SortFunc(ds, func(a, b NewDeployment) int { return cmp.Compare(string(a.ID[:]), string(b.ID[:])) })
	insert := &dbsqlc.DeploymentInsertParams{}
	var projects []uuid.UUID
	for i := range ds {
		d := &ds[i]
		d.Environment = cmp.Or(d.Environment, "prod")
		if err := d.check(); err != nil {
			return err
		}
		if i > 0 && d.ID == ds[i-1].ID {
			return refuse(ErrInvalid, "deployment "+d.ID.String(), "it is asked for twice in one call", "give each its own id")
		}
		insert.Ids, insert.ProjectIds, insert.Environments = append(insert.Ids, d.ID), append(insert.ProjectIds, d.ProjectID), append(insert.Environments, d.Environment)
		projects = append(projects, d.ProjectID)
	}
	var settings map[uuid.UUID]*dbsqlc.ProjectSettingsRow
	var ch choice
	err := together(ctx, tx,
		func(db dbsqlc.DBTX) (err error) { settings, err = c.settings(ctx, db, projects); return err },
		func(db dbsqlc.DBTX) (err error) { ch, err = c.choice(ctx, db); return err })
	if err != nil {
		return err
	}
	var made, gone []uuid.UUID
	err = together(ctx, tx,
		func(db dbsqlc.DBTX) (err error) {
			made, err = c.q.DeploymentInsert(ctx, db, insert)
			return stored(err, "create deployments")
		},
		// One that is gone keeps its id. The insert may have waited for the deletion.
		func(db dbsqlc.DBTX) (err error) {
			gone, err = c.q.EventDeleted(ctx, db, insert.Ids)
			return stored(err, "look for deleted deployments")
		})
	if err != nil {
		return err
	}
	places, events, err := c.firstPlaces(ctx, tx, ds, made, gone, settings, ch)
	if err != nil {
		// Only now is it known who was first with an id. A refusal leaves nothing behind, whatever the caller does next.
		if refused := (*Error)(nil); errors.As(err, &refused) && len(made) > 0 {
			if undo := c.q.DeploymentDelete(ctx, tx, made); undo != nil {
				return stored(undo, "take back deployments")
			}
		}
		return err
	}
	if len(events) == 0 {
		return nil
	}
	err = together(ctx, tx,
		func(db dbsqlc.DBTX) error { return c.insertPlaces(ctx, db, places) },
		func(db dbsqlc.DBTX) error { return c.record(ctx, db, events) })
	if err != nil {
		return err
	}
	return stored(c.jobs.Wake(ctx, tx, wakesOf(places)), "wake places")
}

// firstPlaces are the runtimes of the deployments that were made. It refuses what the others are asked to be and are not.
func (c *Client) firstPlaces(ctx context.Context, tx pgx.Tx, ds []NewDeployment, made, gone []uuid.UUID, settings map[uuid.UUID]*dbsqlc.ProjectSettingsRow, ch choice) (*dbsqlc.PlaceInsertParams, []Event, error) {
	if len(gone) > 0 {
		return nil, nil, refuse(ErrConflict, "deployment "+gone[0].String(), "it was deleted", "choose a new id: one is never used twice")
	}
	fresh := make(map[uuid.UUID]bool, len(made))
	for _, id := range made {
		fresh[id] = true
	}
	if err := c.sameAgain(ctx, tx, ds, fresh); err != nil {
		return nil, nil, err
	}
	places := &dbsqlc.PlaceInsertParams{Grace: patience(len(ds))}
	var events []Event
	for _, d := range ds {
		if !fresh[d.ID] {
			continue
		}
		s := settings[d.ProjectID]
		at, err := ch.resolve(string(provisioner.Runtime), "", s.Provisioner, s.DefaultProvisioner)
		if err != nil {
			return nil, nil, err
		}
		args, err := d.args(s)
		if err != nil {
			return nil, nil, err
		}
		if err := addPlace(places, ch.known[at], d.ID, string(provisioner.Runtime), "", phaseReady, args); err != nil {
			return nil, nil, err
		}
		events = append(events, Event{DeploymentID: d.ID, Kind: DeploymentCreated})
	}
	return places, events, nil
}

func (d NewDeployment) check() error {
	if d.ID == uuid.Nil {
		return refuse(ErrInvalid, "deployment", "it has no id", "choose one, so that the call may be repeated")
	}
	err := cmp.Or(checkEnvironment(d.Environment), checkAnnotations(d.Annotations))
	if err == nil && d.Slots != 0 {
		err = checkSlots(d.Slots)
	}
	if err == nil && d.Version != "" {
		err = checkVersion(d.Version)
	}
	return err
}

// args is what is asked of the runtime.
func (d NewDeployment) args(s *dbsqlc.ProjectSettingsRow) (json.RawMessage, error) {
	annotations := map[string]string{}
	if err := json.Unmarshal(s.Annotations, &annotations); err != nil {
		return nil, fmt.Errorf("read the annotations of project %s: %w", s.ID, err)
	}
	maps.Copy(annotations, d.Annotations)
	if len(annotations) > maxAnnotations {
		return nil, tooManyAnnotations("deployment "+d.ID.String(), len(annotations))
	}
	annotations["organization"], annotations["project"] = s.Organization, s.Name
	return provisioner.Encode(provisioner.RuntimeArgs{
		Slots: cmp.Or(d.Slots, int(s.Slots)), Version: cmp.Or(d.Version, s.Version), Environment: d.Environment, Annotations: annotations,
	}), nil
}

func (c *Client) settings(ctx context.Context, db dbsqlc.DBTX, projects []uuid.UUID) (map[uuid.UUID]*dbsqlc.ProjectSettingsRow, error) {
	projects = sorted(projects)
	rows, err := c.q.ProjectSettings(ctx, db, projects)
	if err != nil {
		return nil, stored(err, "read projects")
	}
	out := make(map[uuid.UUID]*dbsqlc.ProjectSettingsRow, len(rows))
	for _, r := range rows {
		out[r.ID] = r
	}
	for _, id := range projects {
		if out[id] == nil {
			return nil, refuse(ErrNotFound, "project "+id.String(), "it does not exist", "create it first")
		}
	}
	return out, nil
}

// sameAgain compares what exists already with what was asked for.
func (c *Client) sameAgain(ctx context.Context, tx pgx.Tx, ds []NewDeployment, fresh map[uuid.UUID]bool) error {
	if len(fresh) == len(ds) {
		return nil
	}
	asked := map[uuid.UUID]NewDeployment{}
	var ids []uuid.UUID
	for _, d := range ds {
		if !fresh[d.ID] {
			asked[d.ID] = d
			ids = append(ids, d.ID)
		}
	}
	rows, err := c.q.DeploymentLock(ctx, tx, ids)
	if err != nil {
		return stored(err, "lock deployments")
	}
	for _, r := range rows {
		d := asked[r.ID]
		delete(asked, r.ID)
		switch {
		case r.DesiredState == Deleted:
			return refuse(ErrConflict, "deployment "+r.ID.String(), "it is being deleted", "choose a new id")
		case r.ProjectID != d.ProjectID || r.Environment != d.Environment:
			return refuse(ErrConflict, "deployment "+r.ID.String(), "the id belongs to a deployment of another project or environment", "choose a new id")
		}
	}
	for id := range asked { // it was there when we inserted and went before we looked
		return refuse(ErrConflict, "deployment "+id.String(), "it was deleted", "choose a new id: one is never used twice")
	}
	return nil
}

// addPlace adds a place of a new resource. Its id is fresh: it names everything outside and is never used twice.
func addPlace(p *dbsqlc.PlaceInsertParams, at Known, deployment uuid.UUID, typ, name, desired string, args json.RawMessage) error {
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("make an id: %w", err)
	}
	p.Ids, p.Provisioners, p.DeploymentIds = append(p.Ids, id), append(p.Provisioners, at.Name), append(p.DeploymentIds, deployment)
	p.Timeouts = append(p.Timeouts, at.Timeout)
	p.Types, p.Names, p.DesiredPhases, p.Args = append(p.Types, typ), append(p.Names, name), append(p.DesiredPhases, desired), append(p.Args, args)
	return nil
}

func (c *Client) insertPlaces(ctx context.Context, db dbsqlc.DBTX, p *dbsqlc.PlaceInsertParams) error {
	return stored(c.q.PlaceInsert(ctx, db, p), "create places")
}

// wakesOf are the jobs of new places.
func wakesOf(p *dbsqlc.PlaceInsertParams) []jobs.Wake {
	wakes := make([]jobs.Wake, len(p.Ids))
	for i, id := range p.Ids {
		wakes[i] = wake(id, p.Provisioners[i], &p.DeploymentIds[i], p.DesiredPhases[i])
	}
	return wakes
}
