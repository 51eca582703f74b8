package provisioner

// Capacity is the health and headroom of a backend.
type Capacity struct {
	Hosts    []Host   // where the backend consists of hosts; empty where that has no meaning
	Slots    *int     // in all; nil where it cannot be known
	Used     *int     //
	Problems []string // what a person should look into, one line each
}

// A Host is one member of a pool.
type Host struct {
	Name        string
	Slots, Used int
	Closed      string // why it takes no new resources: cordoned, unhealthy; empty if it does
}
