package lifecycle

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"berth/db/dbsqlc"
	"berth/jobs"
	"berth/provisioner"
)

// NewResource is a further thing that a deployment needs, beside its runtime.
type NewResource struct {
	Type        provisioner.ResourceType
	Name        string          // unique per deployment and type, in any case; often empty
	Args        json.RawMessage // what is asked for, shaped by the type; an object, or empty
	Provisioner string          // empty: resolved like a deployment's
}

// AddResource gives deployments one more resource. Repeated it changes nothing; with other args, these are what is asked for from
// then on. It is a conflict to ask for one that exists at another provisioner.
func (c *Client) AddResource(ctx context.Context, tx pgx.Tx, n NewResource, ids ...uuid.UUID) error {
	args, err := n.check()
	if err != nil {
		return err
	}
	l, err := c.lock(ctx, tx, ids, false)
	if err != nil || len(l.ids) == 0 {
		return err
	}
	ch, err := c.choice(ctx, tx)
	if err != nil {
		return err
	}
	have, err := c.q.PlaceCurrent(ctx, tx, &dbsqlc.PlaceCurrentParams{DeploymentIds: l.ids, Type: string(n.Type), Name: n.Name})
	if err != nil {
		return stored(err, "look for the resource")
	}
	at := map[uuid.UUID]bool{}
	var existing []uuid.UUID
	for _, p := range have {
		if n.Provisioner != "" && p.Provisioner != n.Provisioner {
			return refuse(ErrConflict, n.what(*p.DeploymentID), fmt.Sprintf("it exists at provisioner %q", p.Provisioner), "remove it first, or name no provisioner")
		}
		at[*p.DeploymentID] = true
		existing = append(existing, *p.DeploymentID)
	}
	var projects []uuid.UUID
	for _, d := range l.rows {
		projects = append(projects, d.ProjectID)
	}
	settings, err := c.settings(ctx, tx, projects)
	if err != nil {
		return err
	}
	places := &dbsqlc.PlaceInsertParams{Grace: patience(len(l.ids))}
	var events []Event
	for _, d := range l.rows {
		if at[d.ID] {
			continue
		}
		s := settings[d.ProjectID]
		where, err := ch.resolve(string(n.Type), n.Provisioner, s.Provisioner, s.DefaultProvisioner)
		if err != nil {
			return err
		}
		desired := phaseReady
		if d.DesiredState == Stopped {
			desired = phaseHibernated
		}
		if err := addPlace(places, ch.known[where], d.ID, string(n.Type), n.Name, desired, args); err != nil {
			return err
		}
		events = append(events, Event{DeploymentID: d.ID, ResourceID: places.Ids[len(places.Ids)-1], Kind: ResourceAsked})
	}
	if len(places.Ids) > 0 {
		if err := c.insertPlaces(ctx, tx, places); err != nil {
			return err
		}
	}
	changed, woken, err := c.patch(ctx, tx, patch{kind: ResourceAsked, typ: string(n.Type), name: n.Name, args: args, replace: true}, existing)
	if err != nil {
		return err
	}
	return c.Settle(ctx, tx, l.ids, append(events, changed...), append(wakesOf(places), woken...))
}

// RemoveResource takes a further resource from deployments, its data included. What is not there counts as done. The runtime of
// a deployment goes only with the deployment.
func (c *Client) RemoveResource(ctx context.Context, tx pgx.Tx, typ provisioner.ResourceType, name string, ids ...uuid.UUID) error {
	if err := checkResource(string(typ), name); err != nil {
		return err
	}
	if typ == provisioner.Runtime && name == "" {
		return refuse(ErrInvalid, "resource runtime", "a deployment can not be without its runtime", "stop or delete the deployment")
	}
	l, err := c.lock(ctx, tx, ids, false)
	if err != nil || len(l.ids) == 0 {
		return err
	}
	t := string(typ)
	rows, err := c.q.PlaceWishAbsent(ctx, tx, &dbsqlc.PlaceWishAbsentParams{DeploymentIds: l.ids, Type: &t, Name: &name, Grace: patience(len(l.ids))})
	if err != nil {
		return stored(err, "wish places absent")
	}
	var wakes []jobs.Wake
	var events []Event
	for _, r := range rows {
		wakes = append(wakes, wake(r.ID, r.Provisioner, r.DeploymentID, r.DesiredPhase))
		events = append(events, Event{DeploymentID: *r.DeploymentID, ResourceID: r.ID, Kind: ResourceAsked, Detail: map[string]any{"removed": true}})
	}
	return c.Settle(ctx, tx, l.ids, events, wakes)
}

func (n NewResource) what(deployment uuid.UUID) string {
	return fmt.Sprintf("resource %s/%s of deployment %s", n.Type, n.Name, deployment)
}

// check returns the args to store.
func (n NewResource) check() (json.RawMessage, error) {
	if err := checkResource(string(n.Type), n.Name); err != nil {
		return nil, err
	}
	if n.Type == provisioner.Runtime && n.Name == "" {
		return nil, refuse(ErrInvalid, "resource runtime", "every deployment has it", "use Update to change it")
	}
	if len(bytes.TrimSpace(n.Args)) == 0 {
		n.Args = json.RawMessage(`{}`)
	}
	what := fmt.Sprintf("args of resource %s/%s", n.Type, n.Name)
	if why := unstorable(n.Args); why != "" {
		return nil, refuse(ErrInvalid, what, why, `pass an object such as {"size": 1}`)
	}
	if n.Type == provisioner.Runtime {
		a, err := provisioner.DecodeSpec[provisioner.RuntimeArgs](n.Args)
		if err != nil {
			return nil, refuse(ErrInvalid, what, strings.ReplaceAll(err.Error(), "\n", "; "), "pass slots, version, environment and annotations")
		}
		if err := cmp.Or(checkSlots(a.Slots), checkAnnotations(a.Annotations)); err != nil {
			return nil, err
		}
		if a.Version != "" {
			if err := checkVersion(a.Version); err != nil {
				return nil, err
			}
		}
		if a.Environment != "" {
			if err := checkEnvironment(a.Environment); err != nil {
				return nil, err
			}
		}
	}
	return n.Args, nil
}
