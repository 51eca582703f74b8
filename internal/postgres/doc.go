// Package postgres runs a private Postgres for development and tests from whatever server binaries the machine has. The
// server listens on no port, only on a unix socket in a directory that nobody but its owner can enter. Processes that name
// the same cluster share it: the first one starts it, the last one out stops it, and one that was killed is simply gone.
//
// Two file locks beside the data directory are authoritative, not any record of who is there:
//
//	NAME.lock   exclusive, held around creating, starting and stopping
//	NAME.users  shared, held by each process that uses the cluster; whoever gets it exclusively was the last
//
// The kernel drops both when a process dies, so no watchdog is needed.
package postgres
