package provisionertest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"berth/provisioner"
	"berth/provisioner/provisionertest"
)

// boxes is a whole provisioner, as small as one can be: resources of type "box" on a shelf.
type boxes struct {
	name  string // marks what is ours
	room  string
	shelf *shelf
}

// newBoxes is what a provisioner.Registry calls for an entry of this type.
func newBoxes(s *shelf) provisioner.Factory {
	return func(name string, raw json.RawMessage, _ provisioner.Options) (provisioner.Provisioner, error) {
		spec := provisioner.ReadSpec(raw)
		b := &boxes{name: name, room: spec.StringOr("room", "attic"), shelf: s}
		if err := spec.Err(); err != nil { // every fault at once, keys that nobody asked for among them
			return nil, err
		}
		return b, nil
	}
}

func (b *boxes) Info() provisioner.Info {
	return provisioner.Info{Types: []provisioner.ResourceType{"box"}, Timeout: time.Minute}
}

func (b *boxes) Reconcile(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
	args, err := provisioner.Decode[struct{ GB int }](r.Args)
	if err != nil {
		return provisioner.Observation{}, err
	}
	if args.GB < 1 {
		return provisioner.Observation{}, fmt.Errorf("%w: gb is %d: ask for 1 or more", provisioner.ErrInvalid, args.GB)
	}
	have, err := b.shelf.find(ctx, b.name, r.ProvisionID()) // look first: an earlier call may have been cut off
	if err != nil {
		return provisioner.Observation{}, err // not knowing is not absence
	}
	if want := (box{GB: args.GB}); have == nil || *have != want {
		if err := b.shelf.put(ctx, b.name, r.ProvisionID(), r.Fence, &want); err != nil {
			return provisioner.Observation{}, err
		}
	}
	r.Config = provisioner.Encode(map[string]string{"address": b.room + "/" + r.ProvisionID()})
	return provisioner.Observation{Phase: provisioner.PhaseReady}, nil
}

func (b *boxes) Hibernate(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
	have, err := b.shelf.find(ctx, b.name, r.ProvisionID())
	if err == nil && have != nil && !have.Parked {
		err = b.shelf.put(ctx, b.name, r.ProvisionID(), r.Fence, &box{GB: have.GB, Parked: true})
	}
	if err != nil {
		return provisioner.Observation{}, err
	}
	return provisioner.Observation{Phase: provisioner.PhaseHibernated}, nil
}

func (b *boxes) Deprovision(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
	if err := b.shelf.put(ctx, b.name, r.ProvisionID(), r.Fence, nil); err != nil {
		return provisioner.Observation{}, err
	}
	return provisioner.Observation{Phase: provisioner.PhaseAbsent}, nil
}

func (b *boxes) Observe(ctx context.Context, rs []provisioner.Resource) ([]provisioner.Observation, error) {
	seen := make([]provisioner.Observation, len(rs))
	for i, r := range rs {
		have, err := b.shelf.find(ctx, b.name, r.ProvisionID())
		switch {
		case err != nil:
			seen[i] = provisioner.Observation{Phase: provisioner.PhaseUnknown, Reason: "NotReached", Message: err.Error()}
		case have == nil:
			seen[i].Phase = provisioner.PhaseAbsent
		case have.Parked:
			seen[i].Phase = provisioner.PhaseHibernated
		default:
			seen[i].Phase = provisioner.PhaseReady
		}
	}
	return seen, nil
}

func (b *boxes) Check(ctx context.Context) (provisioner.Capacity, error) {
	if _, err := b.shelf.find(ctx, b.name, ""); err != nil {
		return provisioner.Capacity{}, fmt.Errorf("%w: %w", provisioner.ErrUnavailable, err)
	}
	return provisioner.Capacity{}, nil
}

// A shelf is what is outside, behind a network in earnest. It refuses the writes of a run that lost its lease.
type shelf struct {
	steps  *provisionertest.Steps
	mu     sync.Mutex
	boxes  map[[2]string]box // by whose they are, and their names
	fences map[[2]string]uuid.UUID
}

type box struct {
	GB     int
	Parked bool
}

func newShelf() *shelf {
	return &shelf{steps: &provisionertest.Steps{}, boxes: map[[2]string]box{}, fences: map[[2]string]uuid.UUID{}}
}

func (s *shelf) find(ctx context.Context, owner, name string) (found *box, err error) {
	err = s.exchange(ctx, "find", func() error {
		if b, ok := s.boxes[[2]string{owner, name}]; ok {
			found = &b
		}
		return nil
	})
	return found, err
}

func (s *shelf) put(ctx context.Context, owner, name string, fence uuid.UUID, b *box) error {
	return s.exchange(ctx, "put", func() error {
		key := [2]string{owner, name}
		switch {
		case s.fences[key] != fence:
			return errors.New("a newer run holds this box")
		case b == nil:
			delete(s.boxes, key)
		default:
			s.boxes[key] = *b
		}
		return nil
	})
}

func (s *shelf) exchange(ctx context.Context, name string, do func() error) error {
	return s.steps.Do(ctx, name, func(ctx context.Context) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return do()
	})
}

// TestBoxes is the test that a provisioner needs before any of its own.
func TestBoxes(t *testing.T) {
	t.Parallel()
	provisionertest.Run(t, provisionertest.Harness{New: func(t *testing.T) *provisionertest.Backend {
		s := newShelf()
		open := func(name string) func() provisioner.Provisioner {
			return func() provisioner.Provisioner {
				b, err := newBoxes(s)(name, nil, provisioner.Options{})
				if err != nil {
					t.Fatal(err)
				}
				return b
			}
		}
		return &provisionertest.Backend{
			Name: "a", Open: open("a"), OtherName: "b", OpenOther: open("b"),
			Type: "box", Args: json.RawMessage(`{"gb": 1}`), Larger: json.RawMessage(`{"gb": 2}`),
			Invalid: []json.RawMessage{json.RawMessage(`{"gb": 0}`)},
			Claim:   s.claim,
			Inspect: s.inspect,
			Steps:   s.steps,
		}
	}})
}

// claim does what the engine does: a new run, a new fence.
func (s *shelf) claim(owner string, r *provisioner.Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fences[[2]string{owner, r.ProvisionID()}] = r.Fence
}

func (s *shelf) inspect(owner string, id uuid.UUID) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.boxes[[2]string{owner, provisioner.Resource{ID: id}.ProvisionID()}]
	if !ok {
		return nil
	}
	return []string{fmt.Sprintf("a box of %d GB, parked %v", b.GB, b.Parked)}
}
