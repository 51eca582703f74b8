package kubernetes

import (
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"berth/internal/defaults"
)

// A cache holds what is watched. It tells that all is well with a resource, and when somebody should look. That something is missing
// or is gone it never proves: that takes a look at the cluster.
type cache struct {
	mu      sync.Mutex
	kinds   map[schema.GroupKind]*watchedKind // empty while nothing is watched
	things  map[uuid.UUID]map[string]*thing
	owners  map[types.UID]uuid.UUID                 // of what makes pods and of disks that are made, for the events that name them
	events  map[types.UID]string                    // what the last one said
	full    map[uuid.UUID]bool                      // whose pods a quota does not let in
	quotas  map[string]map[string]resource.Quantity // what they leave
	edited  map[uuid.UUID]time.Time                 // when to look whether an edit of a resource is still there
	silence time.Duration                           // after which nothing is relied on
	changed func(uuid.UUID)
	mute    bool                    // while what is heard is no news
	waiters map[uuid.UUID]*waiter   // calls that hear of a resource instead
	later   map[uuid.UUID]time.Time // when to look whether what is wrong with a resource has passed
}

type watchedKind struct {
	core   bool      // a resource stands by it
	synced bool      // all of it is held
	heard  time.Time // when the cluster said something of it last
	err    error     // why it is not watched
}

func newCache() *cache {
	return &cache{
		things: map[uuid.UUID]map[string]*thing{}, owners: map[types.UID]uuid.UUID{}, events: map[types.UID]string{},
		full: map[uuid.UUID]bool{}, quotas: map[string]map[string]resource.Quantity{}, edited: map[uuid.UUID]time.Time{},
		waiters: map[uuid.UUID]*waiter{}, later: map[uuid.UUID]time.Time{},
	}
}

// isCurrent reports whether everything by which a resource stands is watched, and was heard of a short while ago.
func (c *cache) isCurrent() bool {
	for _, k := range c.kinds {
		if k.core && (!k.synced || k.err != nil || time.Since(k.heard) > c.silence) {
			return false
		}
	}
	return len(c.kinds) > 0
}

// of returns what is held of a resource, and whether it can be relied on.
func (c *cache) of(id uuid.UUID) (map[string]*thing, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isCurrent() {
		return nil, false
	}
	return maps.Clone(c.things[id]), true
}

// isFaulted reports whether the cluster said that something is wrong with what makes the pods of a resource.
func (c *cache) isFaulted(id uuid.UUID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.things[id] {
		if c.events[t.uid] != "" {
			return true
		}
	}
	return c.full[id]
}

// put takes in how a thing stands now.
func (c *cache) put(t *thing) {
	of := c.things[t.id]
	if of == nil {
		of = map[string]*thing{}
		c.things[t.id] = of
	}
	was := of[t.key]
	of[t.key] = t
	switch {
	case t.role == roleObject && !t.still, t.role == roleDisk && !t.bound:
		c.owners[t.uid] = t.id
	case t.role == roleDisk: // what was said while it was not bound is over
		delete(c.owners, t.uid)
		delete(c.events, t.uid)
	}
	switch {
	case t.full:
		c.full[t.id] = true
	case t.ready && !t.still: // what was said while it was not is over
		delete(c.full, t.id)
		delete(c.events, t.uid)
	}
	t.follows(was)
	if _, known := c.edited[t.id]; t.isEdited() && !known {
		c.edited[t.id] = time.Now().Add(defaults.KubernetesSecondLook)
	}
	if time.Now().Before(t.passes) {
		c.later[t.id] = t.passes
	}
	if t.isNews(was) && (!t.leaving || !isTornDown(of)) {
		c.tell(t.id)
	}
	c.stir(t.id)
}

// lookAgain tells of edits that are there still after a while, and of what was expected to pass and did not.
func (c *cache) lookAgain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tellDue(c.edited, (*thing).isEdited)
	c.tellDue(c.later, func(t *thing) bool { return t.role == rolePod && t.isFaulted() })
}

// tellDue tells of those whose time has come and of which something is still so.
func (c *cache) tellDue(due map[uuid.UUID]time.Time, isSo func(*thing) bool) {
	for id, when := range due {
		if time.Now().Before(when) {
			continue
		}
		delete(due, id)
		for _, t := range c.things[id] {
			if isSo(t) {
				c.tell(id)
				break
			}
		}
	}
}

// drop takes in that a thing is gone. Where all is taken down, somebody waits for the last of it.
func (c *cache) drop(t *thing) {
	of := c.things[t.id]
	was := of[t.key]
	if was == nil || was.uid != t.uid {
		return // another one of its name is there
	}
	delete(of, t.key)
	delete(c.owners, t.uid)
	delete(c.events, t.uid)
	left := false
	for _, other := range of {
		left = left || other.role != roleDisk
	}
	if len(of) == 0 {
		delete(c.things, t.id)
		delete(c.full, t.id)
	}
	if !left || t.role != rolePod && !isTornDown(of) {
		c.tell(t.id)
	}
	c.stir(t.id)
}

// isTornDown: the anchor goes first where all is to go.
func isTornDown(of map[string]*thing) bool {
	for _, t := range of {
		if t.role == roleAnchor {
			return t.leaving
		}
	}
	return true
}

// replace takes in all there is of a kind. What was there before and is not any more is gone.
func (c *cache) replace(kind schema.GroupKind, all []*thing) {
	now := map[types.UID]bool{}
	for _, t := range all {
		now[t.uid] = true
	}
	prefix := kind.String() + "/"
	var gone []*thing
	for _, of := range c.things {
		for key, t := range of {
			if len(key) > len(prefix) && key[:len(prefix)] == prefix && !now[t.uid] {
				gone = append(gone, t)
			}
		}
	}
	k := c.kinds[kind]
	c.mute = !k.synced // at first all is new, and no news
	for _, t := range gone {
		c.drop(t)
	}
	for _, t := range all {
		c.put(t)
	}
	c.mute, k.synced = false, true
}

// event takes in what the cluster says of an object of ours.
func (c *cache) event(o *unstructured.Unstructured) {
	text := func(path ...string) string {
		s, _, _ := unstructured.NestedString(o.Object, path...)
		return s
	}
	uid := types.UID(text("involvedObject", "uid"))
	id, ours := c.owners[uid]
	said := text("reason") + " " + text("message")
	if !ours || text("type") != "Warning" || c.events[uid] == said {
		return
	}
	c.events[uid] = said
	if text("reason") == "FailedCreate" && refusedPods(o, text("message")).reason == reasonQuota {
		c.full[id] = true
	}
	c.tell(id)
}

// quota takes in what a quota leaves. Whoever is kept out looks again when that is more of anything: that it becomes less, as with each
// pod that somebody else makes, helps nobody.
func (c *cache) quota(o *unstructured.Unstructured, gone bool) {
	was, known := c.quotas[o.GetName()]
	now := leftOf(o)
	if c.quotas[o.GetName()] = now; gone {
		delete(c.quotas, o.GetName())
	}
	if known && (gone || isRoomier(was, now)) {
		c.tellFull()
	}
}

// allQuotas takes in all the quotas that there are.
func (c *cache) allQuotas(all []*unstructured.Unstructured) {
	there := map[string]bool{}
	for _, o := range all {
		there[o.GetName()] = true
		c.quota(o, false)
	}
	for name := range c.quotas {
		if !there[name] {
			delete(c.quotas, name)
			c.tellFull()
		}
	}
}

func (c *cache) tellFull() {
	for id := range c.full {
		c.tell(id)
	}
}
