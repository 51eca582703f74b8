package postgres

import "errors"

// Environment variables that are read here.
const (
	// BinEnv names a directory with the server's programs. Nothing else is looked at when it is set.
	BinEnv = "BERTH_POSTGRES_BIN"
	// HomeEnv names the directory in which clusters and downloads are kept.
	HomeEnv = "BERTH_HOME"
)

// MinMajor is the oldest server that is accepted: CREATE DATABASE has a STRATEGY since 15.
const MinMajor = 15

// ErrNotFound says that no server binaries were found and none could be downloaded. The text around it says what to do.
var ErrNotFound = errors.New("no Postgres server found")

// Options says which cluster to run and how.
type Options struct {
	// Dir is the directory in which the cluster is kept, made if absent. Empty: BERTH_HOME, else a directory of the user's,
	// in memory for a cluster that is not durable where that is possible.
	Dir string
	// Name tells clusters in one directory apart; the major version is added to it. Processes that give the same directory
	// and name share one cluster.
	Name string
	// Temporary asks for a cluster that no other process shares and that Close removes. Its name is chosen by Start.
	Temporary bool
	// Durable keeps fsync on. Without it the data survives a crash of the server but not one of the machine.
	Durable bool
	// Settings are given to the server when it is started, over the ones chosen here. A server that runs already keeps its own.
	Settings map[string]string
	// Logf is told what was done and how long it took; nil for silence.
	Logf func(format string, args ...any)
}
