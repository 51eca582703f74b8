package provisionertest

import (
	"context"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"berth/provisioner"
)

// memories is what mutants of one world remember together, as in a file beside the process.
var memories sync.Map

func memory(f *Fake) *sizes {
	s, _ := memories.LoadOrStore(f.World, &sizes{first: map[uuid.UUID][]byte{}})
	return s.(*sizes)
}

// others are the ids that a provisioner has beside this one.
func (w *World) others(name string, id uuid.UUID) map[uuid.UUID]bool {
	ids := map[uuid.UUID]bool{}
	for _, t := range w.Things() {
		if t.Provisioner == name && t.ID != id {
			ids[t.ID] = true
		}
	}
	return ids
}

type fullIsInvalid struct{ *Fake }

func (m *fullIsInvalid) Reconcile(ctx context.Context, r *resource) (observation, error) {
	o, err := m.Fake.Reconcile(ctx, r)
	return o, invalid(err)
}

func (m *fullIsInvalid) Reserve(ctx context.Context, r *resource) error {
	return invalid(m.Fake.Reserve(ctx, r))
}

func invalid(err error) error {
	if err != nil {
		return fmt.Errorf("%w: %s", provisioner.ErrInvalid, err.Error())
	}
	return nil
}

type listsAll struct{ *Fake }

func (m *listsAll) List(ctx context.Context) ([]provisioner.Object, error) {
	var all []provisioner.Object
	for _, t := range m.World.Things() {
		all = append(all, provisioner.Object{Ref: t.Provisioner + ref(t), UID: t.UID, ResourceID: t.ID})
	}
	_, err := m.Fake.List(ctx)
	return all, err
}

type listsHalf struct{ *Fake }

func (m *listsHalf) List(ctx context.Context) ([]provisioner.Object, error) {
	all, _ := m.Fake.List(ctx)
	return all, nil
}

type removesByName struct{ *Fake }

func (m *removesByName) Remove(_ context.Context, o provisioner.Object) error {
	for _, t := range m.World.Things() {
		if t.Provisioner == m.Name && ref(t) == o.Ref {
			m.World.Lose(m.Name, t.ID, t.Part)
		}
	}
	return nil
}

type plansNothing struct{ *Fake }

func (m *plansNothing) Plan(context.Context, resource) ([]provisioner.Change, error) { return nil, nil }

type plansByDoing struct{ *Fake }

func (m *plansByDoing) Plan(ctx context.Context, r resource) ([]provisioner.Change, error) {
	changes, err := m.Fake.Plan(ctx, r)
	_, _ = m.Reconcile(ctx, &r)
	return changes, err
}

type reservesNothing struct{ *Fake }

func (m *reservesNothing) Reserve(context.Context, *resource) error { return nil }

type watchesOn struct{ *Fake }

func (m *watchesOn) Watch(_ context.Context, changed func(uuid.UUID)) error {
	return m.Fake.Watch(theEnd, changed)
}

type activatesAnew struct{ *Fake }

func (m *activatesAnew) Activate(ctx context.Context) error {
	for _, t := range m.World.Things() {
		if t.Provisioner == m.Name {
			m.World.Lose(m.Name, t.ID, t.Part)
		}
	}
	return m.Fake.Activate(ctx)
}
