package kuberun

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

const dirPrefix = "berth-testkube-"

var swept sync.Once

// Sweep removes what processes left that are gone. Whoever opens a control plane first does so too.
func Sweep() { sweep(0) }

// sweep also removes what the process left that had a number earlier.
func sweep(earlier int) {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	for _, dir := range left {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), dirPrefix), "-")
		if n, err := strconv.Atoi(pid); err == nil && (n == earlier || errors.Is(syscall.Kill(n, 0), syscall.ESRCH)) {
			_ = os.RemoveAll(dir)
		}
	}
}
