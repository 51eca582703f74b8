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
	settings, err := c.settings(ctx, tx, projects)
	if err != nil {
		return err
	}
	made, err := c.q.DeploymentInsert(ctx, tx, insert)
	if err != nil {
		return stored(err, "create deployments")
	}
	places, events, err := c.firstPlaces(ctx, tx, ds, made, settings)
	if err != nil {
		// Only now is it known who was first with an id. A refusal leaves nothing behind, whatever the caller does next.
		if refused := (*Error)(nil); errors.As(err, &refused) && len(made) > 0 {
			if undo := c.q.DeploymentDelete(ctx, tx, made); undo != nil {
				return stored(undo, "take back deployments")
			}
		}
		return err
	}
	wakes, err := c.insertPlaces(ctx, tx, places)
	if err != nil {
		return err
	}
	if err := c.record(ctx, tx, events); err != nil {
		return err
	}
	return stored(c.jobs.Wake(ctx, tx, wakes), "wake places")
}

// firstPlaces are the runtimes of the deployments that were made. It refuses what the others are asked to be and are not.
func (c *Client) firstPlaces(ctx context.Context, tx pgx.Tx, ds []NewDeployment, made []uuid.UUID, settings map[uuid.UUID]*dbsqlc.ProjectSettingsRow) (*dbsqlc.PlaceInsertParams, []Event, error) {
	fresh := make(map[uuid.UUID]bool, len(made))
	for _, id := range made {
		fresh[id] = true
	}
	if err := c.refuseDeleted(ctx, tx, ds); err != nil {
		return nil, nil, err
	}
	if err := c.sameAgain(ctx, tx, ds, fresh); err != nil {
		return nil, nil, err
	}
	places := &dbsqlc.PlaceInsertParams{Grace: patience(len(ds))}
	if len(fresh) == 0 {
		return places, nil, nil
	}
	ch, err := c.choice(ctx, tx)
	if err != nil {
		return nil, nil, err
	}
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

func (c *Client) settings(ctx context.Context, tx pgx.Tx, projects []uuid.UUID) (map[uuid.UUID]*dbsqlc.ProjectSettingsRow, error) {
	projects = sorted(projects)
	rows, err := c.q.ProjectSettings(ctx, tx, projects)
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

// refuseDeleted keeps the id of a deployment that is gone from being used again. It looks after the insert, which may have waited
// for the deletion.
func (c *Client) refuseDeleted(ctx context.Context, tx pgx.Tx, ds []NewDeployment) error {
	ids := make([]uuid.UUID, len(ds))
	for i, d := range ds {
		ids[i] = d.ID
	}
	gone, err := c.q.EventDeleted(ctx, tx, ids)
	if err != nil {
		return stored(err, "look for deleted deployments")
	}
	if len(gone) > 0 {
		return refuse(ErrConflict, "deployment "+gone[0].String(), "it was deleted", "choose a new id: one is never used twice")
	}
	return nil
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

func (c *Client) insertPlaces(ctx context.Context, tx pgx.Tx, p *dbsqlc.PlaceInsertParams) ([]jobs.Wake, error) {
	if len(p.Ids) == 0 {
		return nil, nil
	}
	rows, err := c.q.PlaceInsert(ctx, tx, p)
	if err != nil {
		return nil, stored(err, "create places")
	}
	wakes := make([]jobs.Wake, len(rows))
	for i, r := range rows {
		wakes[i] = wake(r.ID, r.Provisioner, r.DeploymentID, r.DesiredPhase)
	}
	return wakes, nil
}
