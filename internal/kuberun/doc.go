// Package kuberun runs the program testkube, a Kubernetes control plane, as a process that ends with this one. Package kubetest gives it to
// tests, and tools/testkube to commands.
package kuberun
