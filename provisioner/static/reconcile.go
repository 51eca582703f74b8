package static

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"berth/provisioner"
)

// notes is the state of a resource.
type notes struct {
	ReadyOn string `json:"ready_on,omitempty"` // key of the host on which it was seen ready last
	Parked  string `json:"parked,omitempty"`   // it is hibernated, and this is the reason that says how
}

// Reasons of observations.
const (
	reasonNoCapacity = "NoCapacity"    // waits for room
	reasonNeverFits  = "NeverFits"     // larger than every runtime of the pool
	reasonPing       = "PingFailed"    // the runtime does not answer, or not as it should
	reasonKept       = "SlotsKept"     // hibernated, with its slots
	reasonReleased   = "SlotsReleased" // hibernated, without
	reasonUnseen     = "Unseen"        // could not be looked at
)

// errNoHosts: no configuration was brought into force yet.
var errNoHosts = errors.New("no runtime is listed yet")

// Reconcile takes slots, or sees to those that are held, and asks the runtime whether it serves.
func (s *Static) Reconcile(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
	args, err := readArgs(r)
	if err != nil {
		// It waits for nothing any more. If that can not be written now, the next stop or delete sees to it.
		if place, dropErr := s.store.Release(ctx, s.pool, r.ID, r.Fence, true); dropErr == nil {
			s.wake(place.Served)
		}
		return provisioner.Observation{Phase: provisioner.PhaseUnknown}, err
	}
	note, _ := provisioner.Decode[notes](r.State) // what can not be read is what nobody noted
	place, err := s.store.Take(ctx, s.pool, Take{Resource: r.ID, Fence: r.Fence, Slots: args.Slots, ReadyOn: note.ReadyOn})
	if err != nil {
		return provisioner.Observation{Phase: provisioner.PhaseUnknown}, fmt.Errorf("take %s in %s: %w", slots(args.Slots), s.pool.Name, err)
	}
	s.wake(place.Served)
	if place.Key == "" {
		r.State, r.Config = nil, nil
		return s.without(ctx, args.Slots, place)
	}

	note.Parked = ""
	seen, err := s.look(ctx, place, note)
	if seen.Phase == provisioner.PhaseReady {
		note.ReadyOn = place.Key
	}
	r.State = provisioner.Encode(note)
	r.Config = provisioner.Encode(s.spec.slot.Size(provisioner.RuntimeConfig{
		Host: place.URL, Audience: place.Audience, DataDir: place.DataDir, Version: args.Version,
	}, place.Slots))
	if err != nil {
		return seen, err
	}
	switch {
	case place.NeverFits:
		seen.Reason = reasonNeverFits
		err = s.neverFits(args.Slots, place.Largest)
	case place.Wanted > place.Slots:
		seen.Reason = reasonNoCapacity
		err = fmt.Errorf("%w: %s", provisioner.ErrNoCapacity, s.cannotGrow(ctx, place))
	}
	return seen, err
}

// without says why a resource has no slots.
func (s *Static) without(ctx context.Context, n int, place Place) (provisioner.Observation, error) {
	if place.NeverFits && place.Largest == 0 {
		return provisioner.Observation{Phase: provisioner.PhaseAbsent}, fmt.Errorf("take %s in %s: %w", slots(n), s.pool.Name, errNoHosts)
	}
	if place.NeverFits {
		return provisioner.Observation{Phase: provisioner.PhaseAbsent, Reason: reasonNeverFits}, s.neverFits(n, place.Largest)
	}
	return provisioner.Observation{Phase: provisioner.PhasePending, Reason: reasonNoCapacity},
		fmt.Errorf("%w: %s", provisioner.ErrNoCapacity, s.explain(ctx, n))
}

func (s *Static) neverFits(n, largest int) error {
	return fmt.Errorf("%w: %d slots fit no runtime of %s, the largest has %d: ask for fewer, or list a larger one",
		provisioner.ErrInvalid, n, s.pool.Name, largest)
}

// look asks the host of a place whether it serves, and lets the others know when that is news.
func (s *Static) look(ctx context.Context, place Place, note notes) (provisioner.Observation, error) {
	err := s.ask(ctx, place.Host, place.FailedPings > 0)
	switch {
	case err == nil:
		return provisioner.Observation{Phase: provisioner.PhaseReady}, nil
	case note.ReadyOn == place.Key:
		return provisioner.Observation{Phase: provisioner.PhaseUnknown, Reason: reasonPing}, err
	}
	return provisioner.Observation{Phase: provisioner.PhasePending, Reason: reasonPing}, err
}

// ask pings a host and reports a failure, and a success where the host is known to have failed before.
func (s *Static) ask(ctx context.Context, h Host, failed bool) error {
	err := s.pings.ping(ctx, h.URL)
	if ctx.Err() != nil && err != nil || err == nil && !failed {
		return err
	}
	served, reportErr := s.store.Report(ctx, s.pool, h.Key, err == nil)
	if reportErr != nil && err == nil {
		return fmt.Errorf("report that %s answers: %w", h.URL, reportErr)
	}
	s.wake(served) // a failure that could not be reported is met again
	return err
}

// Hibernate keeps the slots: on a shared runtime there is nothing else to give up. With release_on_stop it gives them back.
func (s *Static) Hibernate(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
	place, err := s.store.Release(ctx, s.pool, r.ID, r.Fence, !s.spec.releaseOnStop)
	if err != nil {
		return provisioner.Observation{Phase: provisioner.PhaseUnknown}, fmt.Errorf("hibernate in %s: %w", s.pool.Name, err)
	}
	s.wake(place.Served)
	if place.Key == "" {
		r.State, r.Config = provisioner.Encode(notes{Parked: reasonReleased}), nil
		return parked(reasonReleased, place), nil
	}
	note, _ := provisioner.Decode[notes](r.State)
	note.Parked = reasonKept
	r.State = provisioner.Encode(note)
	return parked(reasonKept, place), nil
}

// parked is what is said of a hibernated resource.
func parked(reason string, place Place) provisioner.Observation {
	message := "holds no slots; a start takes some wherever there is room"
	if reason == reasonKept {
		message = fmt.Sprintf("a shared runtime: it keeps %s on %s, and the instance there is not deleted", slots(place.Slots), place.URL)
	}
	return provisioner.Observation{Phase: provisioner.PhaseHibernated, Reason: reason, Message: message}
}

// Deprovision gives back slots and place in the queue. The instance on the runtime is not its business.
func (s *Static) Deprovision(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
	place, err := s.store.Release(ctx, s.pool, r.ID, r.Fence, false)
	if err != nil {
		return provisioner.Observation{Phase: provisioner.PhaseUnknown}, fmt.Errorf("release in %s: %w", s.pool.Name, err)
	}
	s.wake(place.Served)
	r.State, r.Config = nil, nil
	return provisioner.Observation{Phase: provisioner.PhaseAbsent}, nil
}

// readArgs reads what is asked for. Its errors are ErrInvalid.
func readArgs(r *provisioner.Resource) (provisioner.RuntimeArgs, error) {
	if r.Type != provisioner.Runtime {
		return provisioner.RuntimeArgs{}, fmt.Errorf("%w: type %q: a static provisioner holds resources of type %s only", provisioner.ErrInvalid, r.Type, provisioner.Runtime)
	}
	args, err := provisioner.Decode[provisioner.RuntimeArgs](r.Args)
	if err != nil {
		return args, fmt.Errorf("args: %w", err)
	}
	if args.Slots < 1 || args.Slots > math.MaxInt32 {
		return args, fmt.Errorf("%w: slots %d: ask for a whole number from 1 to %d", provisioner.ErrInvalid, args.Slots, math.MaxInt32)
	}
	if err := provisioner.ValidVersion(cmp.Or(args.Version, "latest")); err != nil {
		return args, err
	}
	return args, nil
}
