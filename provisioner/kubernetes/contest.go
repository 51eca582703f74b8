package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth/internal/defaults"
	"berth/provisioner"
)

// A contest is about a field of ours that another writer keeps changing. After a few rounds it is left to that one.
type contest struct {
	Path   fieldPath `json:"path"`
	Rounds int       `json:"rounds"`
	Last   time.Time `json:"last"`
	By     string    `json:"by,omitempty"` // who has it
	After  string    `json:"after"`        // version of our write that was undone in the last round
}

func (c contest) isLost() bool { return c.Rounds >= defaults.KubernetesRounds }

// isTaken: somebody changed fields of ours, and it is not we who ask for something else.
func isTaken(n *notes, w wish, was *unstructured.Unstructured) bool {
	noted, known := n.Seen[w.key]
	_, digest, _ := strings.Cut(noted.Mark, ".")
	return known && digest == w.digest && noted.Mark == was.GetAnnotations()[annotationApplied] && noted.Ours != oursDigest(was)
}

// changes are the fields that applying a wish would change. The cluster tells, so that what it fills in and other ways to write a value
// are none.
func (k *Kubernetes) changes(ctx context.Context, n *notes, w wish, was *unstructured.Unstructured, l *live) ([]change, error) {
	o := k.conditioned(w, n.Write, was, l.anchor.GetUID())
	o.SetResourceVersion("") // controllers write it meanwhile
	is, err := k.cluster.apply(ctx, o, true)
	if isConflict(err) {
		return nil, errMoved
	}
	if err != nil {
		return nil, err
	}
	all := changesOf(stripped(was), stripped(is), nil)
	return slices.DeleteFunc(all, func(c change) bool { return !c.path.isIn(w.Object) }), nil // others write theirs meanwhile
}

// contend counts what somebody changed of an object, before it is changed back. again: something is left to that one from now on, so
// that there is something else to be asked for.
func (k *Kubernetes) contend(ctx context.Context, n *notes, w wish, was *unstructured.Unstructured, l *live) (again bool, err error) {
	taken, err := k.changes(ctx, n, w, was, l)
	if err != nil {
		return false, err
	}
	now := time.Now().UTC().Truncate(time.Second)
	for _, d := range taken {
		at := slices.IndexFunc(n.Contests[w.key], func(c contest) bool { return slices.Equal(c.Path, d.path) })
		if at < 0 {
			at = len(n.Contests[w.key])
			if n.Contests == nil {
				n.Contests = map[string][]contest{}
			}
			n.Contests[w.key] = append(n.Contests[w.key], contest{Path: d.path})
		}
		c := &n.Contests[w.key][at]
		if now.Sub(c.Last) > defaults.KubernetesTruce {
			c.Rounds = 0
		}
		if mine := n.Seen[w.key].Version; c.After != mine {
			c.Rounds, c.After = c.Rounds+1, mine
		}
		c.Last, c.By = now, cmp.Or(strings.Join(otherManagers(was), ", "), "somebody")
		again = again || c.isLost()
	}
	return again, nil
}

// adopt notes an object that is as it was asked for and that nobody noted so, because the answer to whoever made or changed it, or what
// that one stored, was lost. It may have been edited since: then it is noted as one that was.
func (k *Kubernetes) adopt(ctx context.Context, n *notes, s step, l *live) error {
	if s.wish.Unstructured == nil || isLeaving(s.was) || n.Seen[s.wish.key].Mark == s.was.GetAnnotations()[annotationApplied] {
		return nil
	}
	edited, err := k.changes(ctx, n, s.wish, s.was, l)
	if err != nil {
		return err
	}
	n.note(s.wish, s.was)
	if len(edited) > 0 {
		n.Seen[s.wish.key] = seen{Mark: n.Seen[s.wish.key].Mark, Version: s.was.GetResourceVersion()} // nobody has no fields
		return errMoved
	}
	return nil
}

// yield takes out of a wish what is left to others.
func (n *notes) yield(w *wish) {
	for _, c := range n.Contests[w.key] {
		if c.isLost() {
			without(w.Object, c.Path)
			w.sum()
		}
	}
}

// contested says what is left to whom; empty if nothing is.
func (n *notes) contested() string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(n.Contests)) {
		for _, c := range n.Contests[key] {
			if c.isLost() {
				kind, name, _ := strings.Cut(key, "/")
				all = append(all, fmt.Sprintf("%s of %s is also written by %s, and left to it", c.Path, title(kind, name), c.By))
			}
		}
	}
	return strings.Join(all, "; ")
}

// healthy is how a resource stands with which all is well.
func (n *notes) healthy() provisioner.Observation {
	o := provisioner.Observation{Phase: provisioner.PhaseReady}
	if text := n.contested(); text != "" {
		o.Reason, o.Message = reasonContested, line(text)
	}
	return o
}

// otherManagers are who else writes an object, its controllers left out.
func otherManagers(o *unstructured.Unstructured) (names []string) {
	for _, m := range o.GetManagedFields() {
		if m.Manager != Manager && m.Manager != managerOfReplicas && m.Subresource != "status" && !slices.Contains(names, m.Manager) {
			names = append(names, m.Manager)
		}
	}
	return names
}

// doubled says who stands in the way where a cluster finds an entry of a list twice: one that is ours now, and one that another manager
// wrote and still owns.
func doubled(w wish, was *unstructured.Unstructured, err error) error {
	var told *failing
	if !errors.As(err, &told) || !strings.Contains(told.text, "Duplicate value") {
		return err
	}
	names := otherManagers(was)
	if len(names) == 0 {
		return err
	}
	return &failing{class: told.class, cause: told.cause, text: line(fmt.Sprintf(
		"%s: %s has written entries of %s too, and they are kept beside ours: have it give them up, or delete the object, which is made anew", told.text, strings.Join(names, ", "), titleOf(w.Unstructured)))}
}
