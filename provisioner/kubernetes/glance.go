package kubernetes

import (
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

// glance finds by what is watched, without asking the cluster, that a resource is as it was asked for and seen to be before. It never
// finds that something is missing or wrong: where it can not say that all is well, somebody has to look. storage is the size of the disk,
// in bytes; 0 if there is none.
func (k *Kubernetes) glance(r provisioner.Resource, n *notes, args provisioner.RuntimeArgs) (storage int64, ok bool) {
	if n.Asked == "" || n.Asked != k.asked(args) || n.Leaving != "" || n.Parked {
		return 0, false
	}
	things, current := k.cache.of(r.ID)
	if !current {
		return 0, false
	}
	found := 0
	for _, t := range things {
		noted, known := n.Seen[t.key]
		switch {
		case t.role == rolePod:
			continue
		case t.role == roleDisk && !known: // that a StatefulSet made
			continue
		case !known, t.leaving, !t.ready, t.more, t.mark != noted.Mark, t.ours != noted.Ours, !t.isFresh(noted.Version):
			return 0, false
		case t.role == roleAnchor && string(t.uid) != n.Anchor, t.role == roleObject && string(t.anchor) != n.Anchor, t.role == roleDisk && t.anchor != "":
			return 0, false
		}
		found++
	}
	if found != len(n.Seen) {
		return 0, false
	}
	if n.Disk == "" {
		return 0, true
	}
	disk := things[n.Disk]
	if disk == nil {
		return 0, false
	}
	has, err := resource.ParseQuantity(disk.capacity)
	return has.Value(), err == nil
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
		current = current && t.fault == "" && !t.broken
	}
	return current && !k.cache.isFaulted(r.ID)
}
