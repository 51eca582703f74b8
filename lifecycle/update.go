package lifecycle

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"berth/db/dbsqlc"
	"berth/internal/defaults"
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
	patch := map[string]any{}
	if change.Slots != 0 {
		if err := checkSlots(change.Slots); err != nil {
			return err
		}
		patch["slots"] = change.Slots
	}
	if change.Version != "" {
		if err := checkVersion(change.Version); err != nil {
			return err
		}
		patch["version"] = change.Version
	}
	if err := checkAnnotations(change.Annotations); err != nil {
		return err
	}
	if len(patch) == 0 && len(change.Annotations) == 0 && len(change.Forget) == 0 {
		return refuse(ErrInvalid, "update", "it changes nothing", "name slots, a version or annotations")
	}
	annotations := change.Annotations
	if annotations == nil {
		annotations = map[string]string{}
	}
	return c.patch(ctx, tx, UpdateAsked, string(provisioner.Runtime), "", patch, annotations, change.Forget, ids)
}

// patch merges into the args of one resource in each of the deployments.
func (c *Client) patch(ctx context.Context, tx pgx.Tx, kind, typ, name string, patch any, annotations map[string]string, forget []string, ids []uuid.UUID) error {
	l, err := c.lock(ctx, tx, ids, false)
	if err != nil {
		return err
	}
	p := &dbsqlc.PlacePatchParams{DeploymentIds: l.ids, Type: typ, Name: name, Grace: defaults.Grace, Forget: forget}
	if p.Forget == nil {
		p.Forget = []string{}
	}
	var errs [2]error
	p.Patch, errs[0] = json.Marshal(patch)
	p.Annotations, errs[1] = json.Marshal(annotations)
	if err := cmp.Or(errs[0], errs[1]); err != nil {
		return fmt.Errorf("encode a change: %w", err)
	}
	rows, err := c.q.PlacePatch(ctx, tx, p)
	if err != nil {
		return stored(err, "change what is asked for")
	}
	var wakes []jobs.Wake
	var events []Event
	for _, r := range rows {
		events = append(events, Event{DeploymentID: *r.DeploymentID, ResourceID: r.ID, Kind: kind})
		if r.DesiredPhase == phaseReady {
			wakes = append(wakes, wake(r.ID, r.Provisioner, r.DeploymentID, r.DesiredPhase))
		}
	}
	return c.Settle(ctx, tx, l.ids, events, wakes)
}
