// Package static holds resources of type runtime in a pool of runtimes that are there already: hosts with slots. Nothing is
// made outside; what a resource has is a number of slots of one host, and that is kept in Postgres, through a [Store].
// db/migrations/00003_static.sql is authoritative for how slots are counted, handed out and waited for.
//
//	           Reconcile                     GET <host>/v1/ping is 200
//	nothing ─────────────▶ slots of a host ─────────────────────────────▶ ready
//	   │                         │
//	   │ no room                 │ ping fails: tried again. The third failure in a row of a host closes it to new ones, and
//	   ▼                         │ then what was never ready there gives its slots back and takes others
//	waits, in order of arrival ◀─┘
//
// Rules that a reader may not expect:
//
//   - Stopping keeps the slots, and the instance on the shared runtime is not deleted. So a start comes back to the same host,
//     with room for certain, even if the host was cordoned or removed from the configuration meanwhile: a cordon stops new
//     placements and growth, not a restart. With release_on_stop in the spec a stop gives the slots back, and a start takes
//     whatever host has room then.
//   - A resource that was ready on a host stays there while the host does not answer: its data may be there. The reason says so,
//     and the caller's deadline makes an error of it; it is not moved, and not waited for without end. One that was never
//     ready there has nothing to lose and moves.
//   - A host that left the configuration keeps what it has and takes no more. Its slots may be lowered below what is used.
//   - Who wants more slots keeps what it has while the host has no room, and waits for that host. Who wants less gets it at once.
//   - More slots than any listed host has is invalid and not waited for. What fits a listed host, but none that is open, waits
//     and holds nobody up.
package static
