package kubernetes

import (
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// A thing is what is kept of an object that is watched: what it takes to say that all is well with it, and little of memory.
type thing struct {
	id       uuid.UUID // of the resource
	key      string
	uid      types.UID
	version  string
	mark     string // our annotation
	ours     string // digest of the fields that are ours
	written  string // the same, when we wrote it last
	anchor   types.UID
	leaving  bool
	ready    bool
	serves   bool
	broken   bool
	still    bool      // its kind has no way to come to be ready: it is when it is there
	waits    string    // for what it waits that is not ready
	works    bool      // pods are made for it
	dumb     bool      // it lacks pods, and only events say why: somebody has to ask
	fault    string    // of a pod: why it does not run
	passes   time.Time // until when that fault is expected to pass by itself
	bound    bool      // a disk that is there
	full     bool      // a quota lets in no pod
	capacity string    // of a disk, or what it asks for
	role     role
	more     bool // an anchor names kinds that are not watched
}

type role int

const (
	roleObject role = iota // it comes from a template
	roleAnchor
	roleDisk
	rolePod
)

// thingOf is what is kept of an object; false if it is none of ours.
func (k *Kubernetes) thingOf(o *unstructured.Unstructured) (*thing, bool) {
	id, err := uuid.Parse(o.GetLabels()[LabelResource])
	if err != nil {
		return nil, false
	}
	t := &thing{id: id, key: objectKey(o), uid: o.GetUID(), version: o.GetResourceVersion(), leaving: isLeaving(o)}
	if o.GroupVersionKind().GroupKind() == kindPod.GroupKind() && metav1.GetControllerOf(o) != nil {
		t.role = rolePod
		if c := podCause(o); c.fault {
			t.fault, t.passes, t.waits = c.reason, c.passes, c.message
		}
		return t, true
	}
	if !k.mine(o) {
		return nil, false
	}
	t.mark, t.ours, t.anchor = o.GetAnnotations()[annotationApplied], oursDigest(o), anchorOf(o)
	known, _ := isKnown(o.GroupVersionKind())
	t.works = workloads[o.GetKind()] && o.GetKind() != "Job"
	t.still = known && !workloads[o.GetKind()]
	s := standingOf(o)
	t.ready, t.serves, t.broken, t.waits = s.ready, s.serves, s.broken != "", s.text
	switch {
	case isAnchor(o):
		t.role = roleAnchor
		t.more = len(union(k.coreKinds(), anchored(o)...)) > len(k.coreKinds())
	case isVolume(o):
		t.role, t.bound = roleDisk, isBound(o)
		if has := hasSize(o); has != nil {
			t.capacity = has.String()
		}
	}
	t.dumb = t.works && o.GetKind() != "Deployment" && !t.ready && !hasAllPods(o)
	if c := condition(o, "ReplicaFailure"); c != nil && c.status == "True" {
		refused := refusedPods(o, c.message)
		t.fault, t.full = refused.reason, refused.reason == reasonQuota
	}
	return t, true
}

// isFresh: the thing was seen at this version or a later one.
func (t *thing) isFresh(version string) bool {
	n, err := resourceversion.CompareResourceVersion(t.version, version)
	return err == nil && n >= 0
}

// isEdited: somebody changed what is ours. What a worker of Berth writes it marks.
func (t *thing) isEdited() bool { return t.ours != t.written }

// follows notes what it was before; nil if it is new. That a disk has no owner any more is our doing.
func (t *thing) follows(was *thing) {
	t.written = t.ours
	if was != nil && was.uid == t.uid && (was.mark == t.mark || t.mark == "") && (was.anchor == t.anchor || t.role != roleDisk) {
		t.written = was.written
	}
}

// isFaulted: something is wrong with it that does not pass by itself in a moment.
func (t *thing) isFaulted() bool { return t.broken || t.fault != "" && !time.Now().Before(t.passes) }

// isNews reports whether there is something to be done at once about how a thing stands that stood otherwise before; was is nil if it is
// new. An edit is none: it is looked at a second time first.
func (t *thing) isNews(was *thing) bool {
	if was == nil || was.uid != t.uid {
		was = &thing{capacity: t.capacity, ready: t.still}
	}
	switch {
	case t.leaving != was.leaving, t.broken && !was.broken, t.capacity != was.capacity, t.bound && !was.bound:
		return true
	case t.isFaulted() && t.fault != was.fault:
		return true
	}
	return t.ready && !was.ready || !t.ready && was.ready && !t.serves
}
