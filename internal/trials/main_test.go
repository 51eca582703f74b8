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

// some is how many deployments there are in a trial with so many of them: fewer with -short, where each one costs much.
func some(n int) int {
	if testing.Short() {
		return n * 2 / 5
	}
	return n
}

// times scales what a trial does again and again.
func times(n int) int {
	if soak, err := strconv.Atoi(os.Getenv("BERTH_SOAK")); err == nil && soak > 1 {
		return n * soak
	}
	return n
}
