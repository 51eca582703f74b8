package kubernetes

import (
	"testing"

	"github.com/stretchr/testify/require"

	"berth/provisioner"
)

func BenchmarkRender(b *testing.B) {
	raw := []byte(`{"timeout_seconds": 1, "host": "http://node-*.localhost", "namespace": "n", "image": "i", "template_paths": {
		"http_ingress": "testdata/base/http_ingress.yaml", "grpc_ingress": "testdata/base/grpc_ingress.yaml", "service": "testdata/base/service.yaml",
		"deployment": "testdata/base/deployment.yaml", "pvc": "testdata/base/pvc.yaml"}}`)
	s, err := ReadSpec("k8s-a", raw, provisioner.Options{})
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		_, err := s.Render(testResource, provisioner.RuntimeArgs{Slots: 1, Environment: "prod"}, "installation")
		require.NoError(b, err)
	}
}
