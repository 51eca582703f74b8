package lifecycle

// States that a deployment is wished to be in.
const (
	Running = "running"
	Stopped = "stopped"
	Deleted = "deleted"
)

// Further states that a deployment can be seen in, beside Running and Stopped.
const (
	Pending  = "pending"
	Updating = "updating"
	Stopping = "stopping"
	Deleting = "deleting"
	Errored  = "errored"
)

// states are all that a deployment can be seen in.
var states = []string{Pending, Running, Updating, Stopping, Stopped, Deleting, Errored}

// Phases of a place, as stored. They are the contract's.
const (
	phaseReady      = "ready"
	phaseHibernated = "hibernated"
	phaseAbsent     = "absent"
)

// A Standing is all that the state of a deployment depends on of one of its places.
type Standing struct {
	Desired  string // the phase that is wished
	Phase    string // the phase that was seen
	Observed bool   // the last intent was met once
	GivenUp  bool   // the last intent can not be met as it stands
	Overdue  bool   // its deadline has passed
	Missing  bool   // no live worker has its provisioner
}

// Settled reports whether the place is as it is wished to be.
func (s Standing) Settled() bool { return s.Observed && s.Phase == s.Desired }

// State derives the state of a deployment from what is wished of it and from how its places stand. Places that are wished
// absent while the deployment is not are on their way out and do not count.
func State(desired string, places []Standing) string {
	var current []Standing
	for _, p := range places {
		if p.Desired != phaseAbsent {
			current = append(current, p)
		}
	}
	all := func(is func(Standing) bool) bool {
		for _, p := range current {
			if !is(p) {
				return false
			}
		}
		return true
	}
	switch desired {
	case Deleted:
		return Deleting
	case Stopped:
		if all(func(p Standing) bool { return p.Missing || p.Desired == phaseHibernated && p.Settled() }) {
			return Stopped
		}
		return Stopping
	}
	switch {
	case len(current) == 0: // nothing can serve
		return Pending
	case !all(func(p Standing) bool { return !p.GivenUp && !p.Overdue }):
		return Errored
	case all(func(p Standing) bool { return p.Desired == phaseReady && p.Settled() }):
		return Running
	case all(func(p Standing) bool { return p.Phase == phaseReady }):
		return Updating
	}
	return Pending
}
