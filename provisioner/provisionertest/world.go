package provisionertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"berth/provisioner"
)

// A World is the outside of fakes: what they made stands in it, whatever becomes of the fake. Several fakes may share one, as
// processes share a backend. The zero value is not ready; use [NewWorld]. Safe for concurrent use.
type World struct {
	// Guard, if set, does a write of a run only if its fence is the current one of this place, for instance by holding the
	// row that says so in a transaction around write. nil compares with what SetFence set, and lets a place without one pass.
	// It is set before the world is used.
	Guard func(ctx context.Context, name string, id, fence uuid.UUID, write func() error) error

	mu       sync.Mutex
	things   map[thingKey]*Thing
	reserved map[thingKey]int // slots held by Reserve, by the key of the disk
	fences   map[thingKey]uuid.UUID
	room     int
	limited  bool
	full     int // live calls of Fill
	outage   error
	live     map[thingKey]Call
	overlaps []Call
	watchers map[chan uuid.UUID]struct{}
	serial   int
}

// A Thing is one object in a World. A resource that is ready has two: a disk, which holds its data and its slots, and an
// instance, which goes when it hibernates.
type Thing struct {
	Provisioner string // by whose mark
	ID          uuid.UUID
	Type        provisioner.ResourceType
	Part        Part
	Slots       int
	UID         string // of this very thing
	Data        string // of a disk: what is lost if it is made anew
	Token       string // of an instance: the password that it was made with
	Looks       int    // of an instance: calls until it is ready
}

// Part says which of its resource's things one is.
type Part string

// The parts of a resource.
const (
	Disk     Part = "disk"
	Instance Part = "instance"
)

type thingKey struct {
	name string
	id   uuid.UUID
	kind provisioner.ResourceType
	part Part
}

var errFenced = errors.New("a newer run holds this resource")

// NewWorld makes an empty world with room without end.
func NewWorld() *World {
	return &World{
		things: map[thingKey]*Thing{}, reserved: map[thingKey]int{}, fences: map[thingKey]uuid.UUID{},
		live: map[thingKey]Call{}, watchers: map[chan uuid.UUID]struct{}{},
	}
}

// SetRoom bounds the slots of all things together.
func (w *World) SetRoom(slots int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.room, w.limited = slots, true
}

// Fill takes all room that is left, and what becomes free, until release is called.
func (w *World) Fill() (release func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.full++
	return sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.full--
	})
}

// SetFence makes a fence the current one of a place; the writes of every other are refused from then on.
func (w *World) SetFence(name string, id, fence uuid.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fences[thingKey{name: name, id: id}] = fence
}

// SetOutage makes every exchange fail with err; nil ends it.
func (w *World) SetOutage(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outage = err
}

// Exists reports whether anything is there of the resource, whoever made it.
func (w *World) Exists(id uuid.UUID) bool {
	return slices.ContainsFunc(w.Things(), func(t Thing) bool { return t.ID == id })
}

// Of returns the things that the provisioner of this name has of a resource.
func (w *World) Of(name string, id uuid.UUID) []Thing {
	return slices.DeleteFunc(w.Things(), func(t Thing) bool { return t.Provisioner != name || t.ID != id })
}

// Things returns all there is, in a fixed order.
func (w *World) Things() []Thing {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]Thing, 0, len(w.things))
	for _, t := range w.things {
		all = append(all, *t)
	}
	slices.SortFunc(all, func(a, b Thing) int {
		return cmp.Or(cmp.Compare(a.Provisioner, b.Provisioner), cmp.Compare(a.ID.String(), b.ID.String()),
			cmp.Compare(a.Type, b.Type), cmp.Compare(a.Part, b.Part))
	})
	return all
}

// Describe lists what a provisioner has of a resource as a [Backend] wants it: nothing that differs between two resources for
// which the same was asked.
func (w *World) Describe(name string, id uuid.UUID) []string {
	var lines []string
	for _, t := range w.Of(name, id) {
		lines = append(lines, fmt.Sprintf("%s %s of %d slots", t.Type, t.Part, t.Slots))
	}
	return lines
}

// Put adds or replaces a thing behind the fakes' backs.
func (w *World) Put(t Thing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(t)
	w.tell(t.ID)
}

// Lose removes a part of a resource behind the fakes' backs.
func (w *World) Lose(name string, id uuid.UUID, part Part) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key := range w.things {
		if key.name == name && key.id == id && key.part == part {
			delete(w.things, key)
		}
	}
	w.tell(id)
}

// Overlaps returns the calls that began while another one changed the same resource at the same provisioner. There are none
// unless a run outlived its lease.
func (w *World) Overlaps() []Call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.overlaps)
}

// Used returns the slots taken by all things and reservations.
func (w *World) Used() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.used()
}

// begin notes a changing call; the result ends it.
func (w *World) begin(c Call) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := thingKey{name: c.Provisioner, id: c.ID}
	if _, busy := w.live[key]; busy {
		w.overlaps = append(w.overlaps, c)
		return func() {}
	}
	w.live[key] = c
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.live, key)
	}
}

// write does one write of a run, if its fence allows.
func (w *World) write(ctx context.Context, name string, id, fence uuid.UUID, do func() error) error {
	locked := func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.outage != nil {
			return fmt.Errorf("%w: %w", provisioner.ErrUnavailable, w.outage)
		}
		if current, ok := w.fences[thingKey{name: name, id: id}]; ok && current != fence && w.Guard == nil {
			return errFenced
		}
		if err := do(); err != nil {
			return err
		}
		w.tell(id)
		return nil
	}
	if w.Guard != nil {
		return w.Guard(ctx, name, id, fence, locked)
	}
	return locked()
}

// The rest is called with mu held.

func (w *World) used() int {
	sum := 0
	for key, t := range w.things {
		if key.part == Disk {
			sum += t.Slots
		}
	}
	for _, slots := range w.reserved {
		sum += slots
	}
	return sum
}

// fits reports whether growing by more slots is possible.
func (w *World) fits(more int) bool {
	return more <= 0 || w.full == 0 && (!w.limited || w.used()+more <= w.room)
}

func (w *World) put(t Thing) *Thing {
	w.serial++
	if t.UID == "" {
		t.UID = fmt.Sprintf("uid-%d", w.serial)
	}
	w.things[thingKey{t.Provisioner, t.ID, t.Type, t.Part}] = &t
	return &t
}

func (w *World) tell(id uuid.UUID) {
	for c := range w.watchers {
		select {
		case c <- id:
		default: // missing a change is allowed
		}
	}
}

func ref(t Thing) string {
	return strings.Join([]string{string(t.Type), string(t.Part), strings.ReplaceAll(t.ID.String(), "-", "")}, "/")
}
