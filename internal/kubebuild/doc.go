// Package kubebuild finds the program testkube, the Kubernetes control plane that tests run, and builds it where it has not been built
// yet. It takes minutes once: what it was built of names it in the user's cache directory, so it is built again only when that changes,
// and by one process of the machine at a time.
package kubebuild
