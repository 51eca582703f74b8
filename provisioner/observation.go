package provisioner

import "time"

// Phase is how a resource stands.
type Phase string

// The zero Phase is read as PhaseUnknown.
const (
	PhaseUnknown    Phase = "unknown"    // could not be learned
	PhaseAbsent     Phase = "absent"     // confirmed: nothing is there
	PhasePending    Phase = "pending"    // on its way to what was asked, no fault seen
	PhaseReady      Phase = "ready"      // seen to serve
	PhaseHibernated Phase = "hibernated" // parked, data kept
)

// An Observation is what was seen at one moment.
type Observation struct {
	Phase   Phase
	Reason  string        // for programs: one CamelCase word, such as ImagePullBackOff; empty when all is well
	Message string        // for people: one line, no secrets
	Drift   []string      // paths of fields of ours that differ from what is asked; the name of a missing object
	After   time.Duration // look again no sooner than this, an hour at most; 0 lets the caller choose
}
