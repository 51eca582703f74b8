package reconcile

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"berth/db/dbsqlc"
	"berth/internal/defaults"
	"berth/lifecycle"
	"berth/provisioner"
)

// strand sees to a place whose provisioner this process does not have. If no live worker has had it for long, a delete is
// settled with a debt that is paid when the provisioner is back, a stop counts as done, and everything else waits and says why.
func (e *Engine) strand(ctx context.Context, id uuid.UUID, name string) error {
	return e.apart(ctx, func(tx pgx.Tx) error {
		deployment, err := e.q.PlaceDeployment(ctx, tx, &dbsqlc.PlaceDeploymentParams{ID: id, Provisioner: name})
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("find the deployment of %s: %w", id, err)
		}
		var locked []uuid.UUID
		if deployment != nil {
			locked, err = e.q.DeploymentTryLockDelete(ctx, tx, []uuid.UUID{*deployment})
			if err != nil {
				return fmt.Errorf("lock a deployment: %w", err)
			}
			if len(locked) == 0 {
				return nil // the dispatcher looks again
			}
		}
		rows, err := e.q.PlaceStrand(ctx, tx, &dbsqlc.PlaceStrandParams{
			ID: id, Provisioner: name, Locked: locked, MissingFor: defaults.MissingFor, Retry: defaults.StrandRetry,
			Message: fmt.Sprintf("no live worker has provisioner %q: start one that has it configured", name),
		})
		if err != nil {
			return fmt.Errorf("settle what a missing provisioner held: %w", err)
		}
		var events []lifecycle.Event
		for _, r := range rows {
			if r.DesiredPhase == string(provisioner.PhaseAbsent) && deployment != nil {
				events = append(events, lifecycle.Event{DeploymentID: *deployment, ResourceID: id, Kind: lifecycle.DebtLeft,
					Detail: map[string]any{"provisioner": name, "reason": "ProvisionerMissing"}})
			}
		}
		return e.lifecycle.Settle(ctx, tx, locked, events, nil)
	})
}
