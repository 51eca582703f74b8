package lifecycle

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"berth/db/dbsqlc"
	"berth/jobs"
	"berth/provisioner"
)

// A Change is what an update asks for. Zero values leave things as they are.
type Change struct {
	Slots       int
	Version     string
	Annotations map[string]string // added, or replaced where the keys are the same
	Forget      []string          // annotations to remove
}

// Update changes what the runtimes of deployments are to be. One that is stopped takes it up when it starts. What changes
// nothing drives nothing.
func (c *Client) Update(ctx context.Context, tx pgx.Tx, change Change, ids ...uuid.UUID) error {
	asked, err := change.check()
	if err != nil {
		return err
	}
	l, err := c.lock(ctx, tx, ids, false)
	if err != nil || len(l.ids) == 0 {
		return err
	}
	if err := c.refuseTooMany(ctx, tx, change, l.ids); err != nil {
		return err
	}
	p := patch{kind: UpdateAsked, typ: string(provisioner.Runtime), args: provisioner.Encode(asked), annotations: change.Annotations, forget: change.Forget, detail: asked}
	events, wakes, err := c.patch(ctx, tx, p, l.ids)
	if err != nil {
		return err
	}
	return c.Settle(ctx, tx, l.ids, events, wakes)
}

// check returns the arguments that change.
func (change Change) check() (map[string]any, error) {
	asked := map[string]any{}
	if change.Slots != 0 {
		if err := checkSlots(change.Slots); err != nil {
			return nil, err
		}
		asked["slots"] = change.Slots
	}
	if change.Version != "" {
		if err := checkVersion(change.Version); err != nil {
			return nil, err
		}
		asked["version"] = change.Version
	}
	if err := cmp.Or(checkAnnotations(change.Annotations), checkForget(change.Forget)); err != nil {
		return nil, err
	}
	if len(asked) == 0 && len(change.Annotations) == 0 && len(change.Forget) == 0 {
		return nil, refuse(ErrInvalid, "update", "it changes nothing", "name slots, a version or annotations")
	}
	return asked, nil
}

// refuseTooMany keeps annotations bounded, however many updates add to them.
func (c *Client) refuseTooMany(ctx context.Context, tx pgx.Tx, change Change, ids []uuid.UUID) error {
	if len(change.Annotations) == 0 {
		return nil
	}
	over, err := c.q.PlaceOverAnnotated(ctx, tx, &dbsqlc.PlaceOverAnnotatedParams{
		DeploymentIds: ids, Type: string(provisioner.Runtime), Annotations: provisioner.Encode(change.Annotations),
		Forget: slices.Concat(change.Forget, reservedAnnotations), Most: maxAnnotations,
	})
	if err != nil {
		return stored(err, "count annotations")
	}
	for _, o := range over {
		return tooManyAnnotations("deployment "+o.DeploymentID.String(), int(o.Annotations))
	}
	return nil
}

// A patch changes what is asked of one resource in each of some deployments.
type patch struct {
	kind, typ, name string
	args            json.RawMessage // an object, merged key by key
	replace         bool            // args are all that is asked for
	annotations     map[string]string
	forget          []string
	detail          map[string]any // of the event
}

// patch changes deployments whose locks are held. It returns what follows from it.
func (c *Client) patch(ctx context.Context, tx pgx.Tx, p patch, deployments []uuid.UUID) ([]Event, []jobs.Wake, error) {
	if len(deployments) == 0 {
		return nil, nil, nil
	}
	annotations := p.annotations
	if annotations == nil {
		annotations = map[string]string{}
	}
	rows, err := c.q.PlacePatch(ctx, tx, &dbsqlc.PlacePatchParams{
		DeploymentIds: deployments, Type: p.typ, Name: p.name, Grace: patience(len(deployments)), Patch: p.args, Replace: p.replace,
		Annotations: provisioner.Encode(annotations), Forget: append([]string{}, p.forget...), // not nil, which would be NULL
	})
	if err != nil {
		return nil, nil, stored(err, "change what is asked for")
	}
	var wakes []jobs.Wake
	events := make([]Event, len(rows))
	for i, r := range rows {
		events[i] = Event{DeploymentID: *r.DeploymentID, ResourceID: r.ID, Kind: p.kind, Detail: p.detail}
		if r.DesiredPhase == phaseReady {
			wakes = append(wakes, wake(r.ID, r.Provisioner, r.DeploymentID, r.DesiredPhase))
		}
	}
	return events, wakes, nil
}
