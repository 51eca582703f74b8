// Package provisioner is the contract between Berth and the backends that hold
// resources for it: pools of runtimes, Kubernetes clusters, database servers.
//
// A backend implements [Provisioner] and is made known by a [Factory]. It knows
// nothing of queues, deployments or tables; it sees one [Resource], looks at the
// world, takes what steps it can take now, and says how things stand. The engine
// that calls it owns everything about time: when to call, how long to wait, when
// to give up.
//
// Three rules hold for every method of every backend:
//
//   - Repeat-safe. Any call may be made again, by another process, after a crash at
//     any point in it. Outside names come from [Resource.ProvisionID], so what a lost
//     call made is found by name. Look first, then act.
//   - Never waits. Readiness that takes longer than one exchange with the backend is
//     PhasePending. Calls end when their context does.
//   - Not knowing is not absence. A failed, partial or empty answer is PhaseUnknown
//     or an error, never PhaseAbsent.
package provisioner
