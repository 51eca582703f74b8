package kubetest

// What a test can decide. Pods run and are ready as soon as they have a node, those of Jobs end at once, and a deleted pod is gone whatever
// its grace is, unless their annotations say otherwise. They are looked at again whenever they change.
const (
	// FailAnnotation of a pod is the reason with which its containers do not run: ImagePullBackOff, CrashLoopBackOff, OOMKilled, Error,
	// NotReady (runs, and is not ready) or any other that a container can wait with. Of a PersistentVolumeClaim it is the message with which
	// no volume is made for it, or its volume does not grow.
	FailAnnotation = "testkube.test/fail"
	// MessageAnnotation of a pod is the message beside the reason, instead of the usual one.
	MessageAnnotation = "testkube.test/message"
	// KeepAnnotation of a pod, with any value, has it not end when it is deleted, as on a node that does not answer.
	KeepAnnotation = "testkube.test/keep"

	// MissingImages is what the images begin with that can not be pulled.
	MissingImages = "missing.test/"
)

// The storage classes that there are.
const (
	ClassStandard = "standard" // the default one; its volumes grow
	ClassFixed    = "fixed"    // its volumes do not grow
	ClassWaiting  = "waiting"  // as standard, but a volume is made only when a pod that needs it has a node
)
