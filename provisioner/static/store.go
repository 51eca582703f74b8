package static

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// A Store counts slots. Every method is one short transaction that may be repeated; none is called inside another. Its errors
// are returned to the engine as they are, wrapped, so that it can tell a lost lease from a failure.
type Store interface {
	// Declare writes the hosts of a pool's configuration: new ones are opened, changed ones changed, and those that are not
	// among them take no more. It returns whom it gave room.
	Declare(ctx context.Context, pool Pool, hosts []Host) (served []uuid.UUID, err error)
	// Take has slots taken for a resource, or makes it wait for them.
	Take(ctx context.Context, pool Pool, t Take) (Place, error)
	// Release gives back what a resource holds and no longer lets it wait; with keep, it goes on holding what it has.
	Release(ctx context.Context, pool Pool, resource, fence uuid.UUID, keep bool) (Place, error)
	// Report tells how a ping of a host went, and returns whom that gave room, and who failed on the host while it did. Success
	// needs to be told only of a host that is known to have failed.
	Report(ctx context.Context, pool Pool, host string, answered bool) (wake []uuid.UUID, err error)
	// Assign gives free room to those who wait and returns who got it.
	Assign(ctx context.Context, pool Pool) (served []uuid.UUID, err error)
	// Served returns who holds all that was asked for, while its row still says that it waits for room.
	Served(ctx context.Context, pool Pool) ([]uuid.UUID, error)
	// Places returns what resources have. What has nothing is not among them.
	Places(ctx context.Context, pool Pool, resources []uuid.UUID) (map[uuid.UUID]Place, error)
	// Runtimes returns the hosts of a pool, by their names: those that are listed, and those that are not but still hold slots.
	Runtimes(ctx context.Context, pool Pool) ([]Runtime, error)
	// Waiting returns how many resources wait for room.
	Waiting(ctx context.Context, pool Pool) (int, error)
}

// A Pool says which pool is meant and how it hands out slots.
type Pool struct {
	Name string
	Pack bool // fill one host before the next; otherwise all are filled evenly
}

// A Host is one runtime of a configuration. The store knows it by Key.
type Host struct {
	Key      string `json:"host"` // URL, normalised
	URL      string `json:"url"`  // as written
	Audience string `json:"audience"`
	DataDir  string `json:"data_dir"`
	Slots    int    `json:"slots"`
}

// A Take is a request for slots.
type Take struct {
	Resource, Fence uuid.UUID
	Slots           int
	ReadyOn         string // key of the host on which the resource was ready; from another one that failed it may move away
}

// A Place is what a resource has in a pool. It holds nothing if Host.Key is empty; it waits if Wanted is more than Slots.
type Place struct {
	Host
	Wanted      int
	FailedPings int  // of the host, in a row
	Unhealthy   bool // the host failed too many pings and is closed
	// NeverFits: no listed host has so many slots as were asked for. Largest is what one has at most; 0 if none is listed.
	NeverFits bool
	Largest   int
	Served    []uuid.UUID // others who got room through the call
}

// A Runtime is one host of a pool as it stands.
type Runtime struct {
	Host
	Used           int
	FailedPings    int
	Cordoned       bool
	UnhealthySince time.Time // zero: it answered
	Removed        bool      // no longer in the configuration
}
