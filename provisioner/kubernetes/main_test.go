package kubernetes

import (
	"testing"

	"go.uber.org/goleak"

	"berth/provisioner/kubernetes/kubetest"
)

// A call that a test kills leaves the timer of its request behind, which ends by itself after the time that a request may take.
func TestMain(m *testing.M) {
	kubetest.Main(m, goleak.IgnoreTopFunction("net/http.setRequestCancel.func4"))
}
