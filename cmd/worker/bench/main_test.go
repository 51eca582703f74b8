package bench

import (
	"testing"

	"berth/provisioner/kubernetes/kubetest"
)

func TestMain(m *testing.M) { kubetest.Main(m) }
