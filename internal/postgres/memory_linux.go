package postgres

import (
	"fmt"
	"os"
	"syscall"
)

// memoryNeeded is how much has to be free: containers often have 64 MB of shared memory, which a cluster would fill.
const memoryNeeded = 2 << 30

// memory is a directory in RAM for a cluster that may vanish, or empty where there is none.
func memory() string {
	var st syscall.Statfs_t
	if syscall.Statfs("/dev/shm", &st) != nil || st.Bavail*uint64(st.Bsize) < memoryNeeded { //nolint:gosec // a block size is positive
		return ""
	}
	dir := fmt.Sprintf("/dev/shm/berth-%d", os.Geteuid())
	if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
		return ""
	}
	// Anybody may make names there: it has to be ours, and nobody else's to write.
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o022 != 0 || int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
		return ""
	}
	return dir
}
