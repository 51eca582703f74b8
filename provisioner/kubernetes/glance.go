package kubernetes

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"

	"k8s.io/apimachinery/pkg/api/resource"

	"berth/provisioner"
)

// asked identifies what is asked for and what it is made by: as long as it is the same, so are the objects.
func (k *Kubernetes) asked(args provisioner.RuntimeArgs) string {
	h := sha256.New()
	h.Write([]byte(k.spec.fingerprint))
	h.Write(provisioner.Encode(args))
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// A glance is how a resource stands by what is watched, all of whose objects are as they were asked for and seen to be before.
type glance struct {
	storage int64    // the size of the disk, in bytes; 0 if there is none
	ready   bool     // all objects are
	waits   string   // for what it waits, if not
	rolling bool     // what was there before serves meanwhile
	owned   []*thing // disks that are not to go with the anchor any more
}

// glance finds by what is watched, without asking the cluster, that a resource is as it was asked for. It never finds that something is
// missing or wrong: where it can not say that all is as it is to be, somebody has to look.
func (k *Kubernetes) glance(r provisioner.Resource, n *notes, args provisioner.RuntimeArgs) (g glance, ok bool) {
	if n.Asked == "" || n.Asked != k.asked(args) || n.Leaving != "" || n.Parked {
		return g, false
	}
	things, current := k.cache.of(r.ID)
	if !current {
		return g, false
	}
	g.ready = true
	found, serves, works, passing := 0, true, false, ""
	for _, t := range things {
		noted, known := n.Seen[t.key]
		switch {
		case t.role == rolePod:
			if t.fault != "" && (passing == "" || t.waits < passing) {
				passing = t.waits
			}
			continue
		case t.role == roleDisk && !known && !t.leaving: // that a StatefulSet made
			continue
		case !known, t.leaving, t.more, t.mark != noted.Mark, t.ours != noted.Ours, !t.isFresh(noted.Version):
			return g, false
		case t.role == roleAnchor && string(t.uid) != n.Anchor:
			return g, false
		case t.anchor != "" && string(t.anchor) != n.Anchor, t.anchor == "" && t.role == roleObject:
			return g, false
		}
		found++
		if !t.ready && (g.ready || t.waits < g.waits) { // the same one each time
			g.ready, g.waits = false, t.waits
		}
		works = works || t.works
		serves = serves && (!t.works || t.ready || t.serves)
	}
	if found != len(n.Seen) || !g.ready && !k.isWithoutFault(r) {
		return g, false
	}
	g.rolling = works && serves
	g.waits = cmp.Or(passing, g.waits)
	for _, t := range things {
		if t.role == roleDisk && t.anchor != "" && (t.bound || g.ready) {
			g.owned = append(g.owned, t)
		}
	}
	if n.Disk == "" {
		return g, true
	}
	disk := things[n.Disk]
	if disk == nil {
		return g, false
	}
	has, err := resource.ParseQuantity(disk.capacity)
	g.storage = has.Value()
	return g, err == nil
}

// isParked finds by what is watched that nothing but disks is there of what was hibernated.
func (k *Kubernetes) isParked(r provisioner.Resource, n *notes) bool {
	things, current := k.cache.of(r.ID)
	for _, t := range things {
		current = current && t.role == roleDisk && !t.leaving
	}
	return current && n.Parked && n.Leaving == ""
}

// isNew finds by what is watched that nothing was made of a resource yet. Whoever makes something then is refused if it is not so.
func (k *Kubernetes) isNew(r provisioner.Resource, n *notes) bool {
	things, current := k.cache.of(r.ID)
	return current && len(things) == 0 && len(n.Seen) == 0 && n.Anchor == "" && !n.Parked
}

// isWithoutFault finds by what is watched that nothing is known to be wrong with what is not ready yet. What comes to be known is heard.
func (k *Kubernetes) isWithoutFault(r provisioner.Resource) bool {
	things, current := k.cache.of(r.ID)
	for _, t := range things {
		current = current && !t.isFaulted() && !t.dumb
	}
	return current && !k.cache.isFaulted(r.ID)
}
