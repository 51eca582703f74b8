// Package jobs is all of Berth that knows River: the kinds of jobs, how they are inserted in the caller's transaction, and
// the client that works them. A job is only a wake-up: it says where to look and nothing about what is to be done. Nothing
// rests on a job's row. Delete all of them, and everything still converges.
package jobs
