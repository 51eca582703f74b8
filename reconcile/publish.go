package reconcile

import (
	"encoding/json"
	"strings"

	"github.com/google/uuid"

	"berth/db/dbsqlc"
	"berth/lifecycle"
	"berth/provisioner"
)

// publish records what clients of a resource have to know of an outcome. One that was claimed before the last change of intent
// publishes nothing; the run that follows it does.
func (c *commit) publish(o *outcome, r *dbsqlc.PlaceStoreRow) {
	if !r.Current {
		return
	}
	ready := r.Phase == string(provisioner.PhaseReady) && r.DesiredPhase == r.Phase
	served := ready && r.Met && (!r.WasMet || r.OldPhase != r.Phase) // it begins to, or does again
	switch {
	case served && r.Type == string(provisioner.Runtime):
		c.tell(lifecycle.RuntimePublished, r.DeploymentID, r.ID, r.Provisioner, r.Config)
	case r.ConfigChanged && (ready || r.WasMet), served:
		// Told again when it begins to serve: what changed before that was not published.
		c.tell(lifecycle.ConfigChanged, r.DeploymentID, r.ID, r.Provisioner, r.Config)
	}
	if o.aside {
		c.tell(lifecycle.WorkerLost, r.DeploymentID, r.ID, r.Provisioner, nil)
	}
}

func (c *commit) tell(kind string, deployment *uuid.UUID, id uuid.UUID, at string, config json.RawMessage) {
	e := lifecycle.Event{ResourceID: id, Kind: kind, Detail: map[string]any{
		"provisioner": at, "instance_id": strings.ReplaceAll(id.String(), "-", ""),
	}}
	if deployment != nil {
		e.DeploymentID = *deployment
	}
	var runtime provisioner.RuntimeConfig
	if err := json.Unmarshal(config, &runtime); err == nil && runtime.Host != "" {
		e.Detail["host"], e.Detail["audience"], e.Detail["slots"] = runtime.Host, runtime.Audience, runtime.Slots
	}
	c.events = append(c.events, e)
}
