// Package kubetest gives tests a real Kubernetes control plane: etcd, API server with RBAC, controllers, scheduler, and simulated nodes and
// volumes, in one process that it builds (once) and starts. Each test process has one, and each test a namespace of its own.
//
//	func TestMain(m *testing.M) { kubetest.Main(m) }
//
//	func TestSomething(t *testing.T) {
//		t.Parallel()
//		n := kubetest.New(t)
//		n.Client.AppsV1().Deployments(n.Name).Apply(...)
//	}
//
// Where there is no control plane to be had, tests fail and say why; none is skipped.
//
// What is not there: containers, kube-proxy and a network of pods (addresses of pods and services answer nothing), an ingress controller
// (an Ingress gets no address), a cloud provider (a LoadBalancer stays pending).
package kubetest
