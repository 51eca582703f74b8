package reconcile

// Alive reports whether this process may act: its heartbeat arrives, and nobody took it for dead.
func (e *Engine) Alive() bool {
	_, _, ok := e.life.acting()
	return ok
}

// LeasesLost is how many leases this process lost since it started: before their runs ended, or before their outcomes were stored.
func (e *Engine) LeasesLost() uint64 { return e.leasesLost.Load() }

// TakeOvers is how many places this process took over from workers that were lost, since it started.
func (e *Engine) TakeOvers() uint64 { return e.takeOvers.Load() }
