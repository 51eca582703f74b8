package provisioner

// RuntimeArgs is what is asked of a resource of type Runtime.
type RuntimeArgs struct {
	Slots       int               `json:"slots"`
	Version     string            `json:"version,omitempty"` // empty: latest; see [Options.Version]
	Environment string            `json:"environment"`
	Annotations map[string]string `json:"annotations,omitempty"` // names of organization, project and so on, for people
}

// RuntimeConfig is how a runtime is reached and what it has in fact.
type RuntimeConfig struct {
	Host         string `json:"host"`
	Audience     string `json:"audience"`
	DataDir      string `json:"data_dir"`
	Slots        int    `json:"slots"`
	Version      string `json:"version,omitempty"`
	CPU          int    `json:"cpu"`
	MemoryGB     int    `json:"memory_gb"`
	StorageBytes int64  `json:"storage_bytes"`
}

// A Slot is the unit of size of a runtime.
type Slot struct {
	CPU       int `json:"cpu"`
	MemoryGB  int `json:"memory_gb"`
	StorageGB int `json:"storage_gb"`
}

// DefaultSlot is used where a spec does not say otherwise.
var DefaultSlot = Slot{CPU: 1, MemoryGB: 4, StorageGB: 40}

// maxSlotUnit bounds what one slot may amount to, so that a size never overflows.
const maxSlotUnit = 1 << 20

// ReadSlot reads what a slot amounts to from the key slot of a spec. All of it may be left out: see [DefaultSlot].
func ReadSlot(s *Spec) Slot {
	d := DefaultSlot
	if !s.Has("slot") {
		return d
	}
	o := s.Object("slot")
	return Slot{
		CPU:       int(o.IntOr("cpu", "number of CPUs", 1, maxSlotUnit, int64(d.CPU))),
		MemoryGB:  int(o.IntOr("memory_gb", "number of gigabytes", 1, maxSlotUnit, int64(d.MemoryGB))),
		StorageGB: int(o.IntOr("storage_gb", "number of gigabytes", 1, maxSlotUnit, int64(d.StorageGB))),
	}
}

// Size fills in what n slots amount to.
func (s Slot) Size(c RuntimeConfig, n int) RuntimeConfig {
	c.Slots, c.CPU, c.MemoryGB = n, n*s.CPU, n*s.MemoryGB
	c.StorageBytes = int64(n) * int64(s.StorageGB) * 1e9
	return c
}
