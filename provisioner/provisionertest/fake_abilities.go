package provisionertest

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"berth/provisioner"
)

func (f *Fake) reserve(ctx context.Context, r *provisioner.Resource) error {
	slots, err := f.slots(r)
	if err != nil {
		return err
	}
	return f.write(ctx, r, "reserve", func(w *World) error {
		key := f.key(r, Disk)
		have := w.reserved[key]
		if disk := w.things[key]; disk != nil {
			have += disk.Slots
		}
		if !w.fits(slots - have) {
			return fmt.Errorf("%w: %d slots asked for", provisioner.ErrNoCapacity, slots)
		}
		if w.things[key] == nil {
			w.reserved[key] = slots
		}
		return nil
	})
}

// List returns everything of this name's.
func (f *Fake) List(ctx context.Context) (found []provisioner.Object, err error) {
	err = f.exchange(ctx, "list", func(w *World) error {
		for key, t := range w.things {
			if key.name == f.Name {
				found = append(found, provisioner.Object{Ref: ref(*t), UID: t.UID, ResourceID: t.ID})
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b provisioner.Object) int { return cmp.Compare(a.Ref, b.Ref) })
	return found, nil
}

// Remove deletes the thing of this UID.
func (f *Fake) Remove(ctx context.Context, o provisioner.Object) error {
	return f.exchange(ctx, "remove", func(w *World) error {
		for key, t := range w.things {
			if key.name == f.Name && t.UID == o.UID && ref(*t) == o.Ref {
				delete(w.things, key)
				w.tell(key.id)
			}
		}
		return nil
	})
}

// Plan tells what Reconcile would do.
func (f *Fake) Plan(ctx context.Context, r provisioner.Resource) ([]provisioner.Change, error) {
	slots, err := f.slots(&r)
	if err != nil {
		return nil, err
	}
	s, err := f.find(ctx, &r)
	if err != nil {
		return nil, err
	}
	var changes []provisioner.Change
	for _, have := range []struct {
		part  Part
		thing *Thing
	}{{Disk, s.disk}, {Instance, s.instance}} {
		switch {
		case have.thing == nil:
			changes = append(changes, provisioner.Change{Ref: string(have.part), Action: "create", Detail: fmt.Sprintf("of %d slots", slots)})
		case have.thing.Slots != slots:
			changes = append(changes, provisioner.Change{Ref: string(have.part), Action: "update", Detail: fmt.Sprintf("from %d to %d slots", have.thing.Slots, slots)})
		}
	}
	return changes, nil
}

// Watch reports changes in the world until ctx ends.
func (f *Fake) Watch(ctx context.Context, changed func(uuid.UUID)) error {
	told := make(chan uuid.UUID, 64)
	f.World.mu.Lock()
	f.World.watchers[told] = struct{}{}
	f.World.mu.Unlock()
	defer func() {
		f.World.mu.Lock()
		delete(f.World.watchers, told)
		f.World.mu.Unlock()
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case id := <-told:
			changed(id)
		}
	}
}

// Activate is counted, and does no more.
func (f *Fake) Activate(ctx context.Context) error {
	return f.exchange(ctx, "activate", func(*World) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.active++
		return nil
	})
}

// Activated returns how often Activate was called.
func (f *Fake) Activated() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.active
}

var (
	_ provisioner.Provisioner = (*Fake)(nil)
	_ provisioner.Lister      = (*Fake)(nil)
	_ provisioner.Planner     = (*Fake)(nil)
	_ provisioner.Watcher     = (*Fake)(nil)
	_ provisioner.Reserver    = (*Fake)(nil)
	_ provisioner.Activator   = (*Fake)(nil)
)
