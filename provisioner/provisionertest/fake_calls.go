package provisionertest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"berth/provisioner"
)

// notes is the state that a fake keeps.
type notes struct {
	Token string `json:"token,omitempty"`
}

type wanted struct {
	Slots *int `json:"slots"`
}

// exchange does one thing in the world, under its lock, as one request to a backend would.
func (f *Fake) exchange(ctx context.Context, name string, do func(w *World) error) error {
	return f.Steps.Do(ctx, name, func(ctx context.Context) error {
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", name, context.Cause(ctx))
		}
		f.World.mu.Lock()
		defer f.World.mu.Unlock()
		if f.World.outage != nil {
			return fmt.Errorf("%s: %w: %w", name, provisioner.ErrUnavailable, f.World.outage)
		}
		return do(f.World)
	})
}

// write is an exchange that changes something: the world refuses it if another run holds the resource.
func (f *Fake) write(ctx context.Context, r *provisioner.Resource, name string, do func(w *World) error) error {
	return f.Steps.Do(ctx, name, func(ctx context.Context) error {
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", name, context.Cause(ctx))
		}
		err := f.World.write(ctx, f.Name, r.ID, r.Fence, func() error { return do(f.World) })
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
}

func (f *Fake) key(r *provisioner.Resource, part Part) thingKey {
	return thingKey{f.Name, r.ID, r.Type, part}
}

type sight struct{ disk, instance *Thing }

func (f *Fake) find(ctx context.Context, r *provisioner.Resource) (s sight, err error) {
	err = f.exchange(ctx, "look", func(w *World) error {
		if t := w.things[f.key(r, Disk)]; t != nil {
			copied := *t
			s.disk = &copied
		}
		if t := w.things[f.key(r, Instance)]; t != nil {
			copied := *t
			s.instance = &copied
		}
		return nil
	})
	return s, err
}

func (s sight) observation() provisioner.Observation {
	switch {
	case s.disk == nil && s.instance == nil:
		return provisioner.Observation{Phase: provisioner.PhaseAbsent}
	case s.disk == nil:
		return provisioner.Observation{Phase: provisioner.PhasePending, Reason: "DiskMissing", Drift: []string{string(Disk)}}
	case s.instance == nil:
		return provisioner.Observation{Phase: provisioner.PhaseHibernated}
	case s.instance.Looks > 0:
		return provisioner.Observation{Phase: provisioner.PhasePending, Reason: "Starting"}
	default:
		return provisioner.Observation{Phase: provisioner.PhaseReady}
	}
}

// look is what Observe says of one resource.
func (f *Fake) look(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
	s, err := f.find(ctx, r)
	if err != nil {
		return provisioner.Observation{Phase: provisioner.PhaseUnknown, Reason: "NotReached"}, err
	}
	return s.observation(), nil
}

func (f *Fake) slots(r *provisioner.Resource) (int, error) {
	args, err := provisioner.Decode[wanted](r.Args)
	if err != nil {
		return 0, fmt.Errorf("args: %w", err)
	}
	if args.Slots == nil {
		return 1, nil
	}
	if *args.Slots < 1 {
		return 0, fmt.Errorf("%w: slots is %d: ask for 1 or more", provisioner.ErrInvalid, *args.Slots)
	}
	f.World.mu.Lock()
	defer f.World.mu.Unlock()
	if f.World.limited && *args.Slots > f.World.room {
		return 0, fmt.Errorf("%w: slots is %d and there are %d in all: ask for fewer", provisioner.ErrInvalid, *args.Slots, f.World.room)
	}
	return *args.Slots, nil
}

func (f *Fake) reconcile(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
	slots, err := f.slots(r)
	if err != nil {
		return provisioner.Observation{Phase: provisioner.PhaseUnknown}, err
	}
	st, err := provisioner.Decode[notes](r.State)
	if err != nil {
		return provisioner.Observation{Phase: provisioner.PhaseUnknown}, fmt.Errorf("state: %w", err)
	}
	s, err := f.find(ctx, r)
	if err != nil {
		return provisioner.Observation{Phase: provisioner.PhaseUnknown}, err
	}
	if f.Private && st.Token == "" {
		st.Token = uuid.NewString()
		r.State = provisioner.Encode(st)
		return provisioner.Observation{Phase: provisioner.PhasePending, Reason: "PasswordMade"}, nil
	}
	if s.instance != nil && s.instance.Token != st.Token {
		return s.observation(), fmt.Errorf("the instance does not know our password")
	}
	if err := f.grow(ctx, r, s, slots); err != nil {
		if s.disk != nil && s.instance != nil && errors.Is(err, provisioner.ErrNoCapacity) {
			return s.observation(), err // at the old size
		}
		return provisioner.Observation{Phase: provisioner.PhaseUnknown}, err
	}
	if s.instance == nil || s.instance.Slots != slots {
		err := f.write(ctx, r, "start the instance", func(w *World) error {
			if have := w.things[f.key(r, Instance)]; have != nil {
				have.Slots = slots
				return nil
			}
			w.put(Thing{Provisioner: f.Name, ID: r.ID, Type: r.Type, Part: Instance, Slots: slots, Token: st.Token, Looks: f.Looks})
			return nil
		})
		if err != nil {
			return provisioner.Observation{Phase: provisioner.PhaseUnknown}, err
		}
	}
	return f.settle(ctx, r, slots)
}

// grow makes the disk, or gives it its size.
func (f *Fake) grow(ctx context.Context, r *provisioner.Resource, s sight, slots int) error {
	if s.disk != nil && s.disk.Slots == slots {
		return nil
	}
	return f.write(ctx, r, "make the disk", func(w *World) error {
		disk, held := w.things[f.key(r, Disk)], w.reserved[f.key(r, Disk)]
		have := held
		if disk != nil {
			have += disk.Slots
		}
		if !w.fits(slots - have) {
			return fmt.Errorf("%w: %d slots asked for", provisioner.ErrNoCapacity, slots)
		}
		delete(w.reserved, f.key(r, Disk))
		if disk == nil {
			w.put(Thing{Provisioner: f.Name, ID: r.ID, Type: r.Type, Part: Disk, Slots: slots, Data: uuid.NewString()})
			return nil
		}
		disk.Slots = slots
		return nil
	})
}

// settle looks whether the instance is ready, and says how it is reached.
func (f *Fake) settle(ctx context.Context, r *provisioner.Resource, slots int) (o provisioner.Observation, err error) {
	err = f.exchange(ctx, "ask the instance", func(w *World) error {
		t := w.things[f.key(r, Instance)]
		if t == nil || w.things[f.key(r, Disk)] == nil {
			return errors.New("gone while it was made")
		}
		if t.Looks > 0 {
			t.Looks--
			o = provisioner.Observation{Phase: provisioner.PhasePending, Reason: "Starting"}
			return nil
		}
		o.Phase = provisioner.PhaseReady
		return nil
	})
	if err != nil {
		return provisioner.Observation{Phase: provisioner.PhaseUnknown}, err
	}
	if o.Phase == provisioner.PhaseReady {
		r.Config = f.config(r, slots)
	}
	return o, nil
}

func (f *Fake) config(r *provisioner.Resource, slots int) []byte {
	host := "http://" + strings.ToLower(f.Name) + ".test"
	if r.Type != provisioner.Runtime {
		return provisioner.Encode(map[string]string{"endpoint": host + "/" + r.ProvisionID()})
	}
	config := provisioner.DefaultSlot.Size(provisioner.RuntimeConfig{Host: host, Audience: host, DataDir: "/data"}, slots)
	if args, err := provisioner.Decode[provisioner.RuntimeArgs](r.Args); err == nil {
		config.Version = args.Version
	}
	return provisioner.Encode(config)
}

func (f *Fake) hibernate(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
	s, err := f.find(ctx, r)
	if err != nil {
		return provisioner.Observation{Phase: provisioner.PhaseUnknown}, err
	}
	if s.instance != nil {
		if err := f.drop(ctx, r, "stop the instance", Instance); err != nil {
			return provisioner.Observation{Phase: provisioner.PhaseUnknown}, err
		}
	}
	return provisioner.Observation{Phase: provisioner.PhaseHibernated}, nil
}

func (f *Fake) deprovision(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
	for _, part := range []Part{Instance, Disk} {
		if err := f.drop(ctx, r, "delete the "+string(part), part); err != nil {
			return provisioner.Observation{Phase: provisioner.PhaseUnknown}, err
		}
	}
	s, err := f.find(ctx, r) // absence is seen after the last write
	if err != nil {
		return provisioner.Observation{Phase: provisioner.PhaseUnknown}, err
	}
	if o := s.observation(); o.Phase != provisioner.PhaseAbsent {
		return provisioner.Observation{Phase: provisioner.PhasePending, Reason: "Deleting"}, nil
	}
	return provisioner.Observation{Phase: provisioner.PhaseAbsent}, nil
}

func (f *Fake) drop(ctx context.Context, r *provisioner.Resource, name string, part Part) error {
	return f.write(ctx, r, name, func(w *World) error {
		delete(w.things, f.key(r, part))
		delete(w.reserved, f.key(r, part))
		return nil
	})
}

func (f *Fake) check(ctx context.Context) (c provisioner.Capacity, err error) {
	err = f.exchange(ctx, "count", func(w *World) error {
		used := w.used()
		c.Used = &used
		if w.limited {
			room := w.room
			c.Slots = &room
		}
		return nil
	})
	return c, err
}
