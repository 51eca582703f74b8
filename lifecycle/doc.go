// Package lifecycle is what an admin service calls in its own Postgres transaction: it writes what a deployment is to be, and
// inserts the jobs that make it so, all or nothing with the caller's own writes. It never calls a backend.
//
//	create ──▶ pending ──▶ running ◀──▶ updating        any state ── delete ──▶ deleting ──▶ gone
//	              ▲ │          │
//	              │ ▼          ▼
//	           errored      stopping ──▶ stopped ── start ──▶ pending
//
// What is authoritative: desired_state of a deployment and desired_phase and args of its places are intent and written only
// here. The state of a deployment is derived by [State] from that and from what the engine saw, and stored only by
// [Client.Settle].
//
// Every call takes its locks in one order: deployments by id, then their places by id, then jobs. Every call may be repeated.
// Whether something is missing, invalid or in conflict is decided by reading, so a refusal never aborts the caller's
// transaction. A database error does, as any would.
//
// They are written for READ COMMITTED, which is what Postgres gives unless told otherwise. Stricter transactions work and meet
// [ErrRetry] more often; only there, one that began before a deployment was gone can create another one with its id.
package lifecycle
