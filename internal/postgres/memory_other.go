//go:build unix && !linux && !aix && !solaris

package postgres

// memory is a directory in RAM for a cluster that may vanish; only Linux has one at a known place.
func memory() string { return "" }
