package trials

import (
	"os"
	"strconv"
	"testing"

	"berth/db/dbtest"
	"berth/provisioner/kubernetes/kubetest"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(orderEnv); text != "" {
		os.Exit(work(text))
	}
	dbtest.Main(kubetest.Ending(m))
}

// times scales what a trial does again and again.
func times(n int) int {
	if soak, err := strconv.Atoi(os.Getenv("BERTH_SOAK")); err == nil && soak > 1 {
		return n * soak
	}
	return n
}
