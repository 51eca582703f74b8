package static

import (
	"context"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"berth/internal/defaults"
	"berth/provisioner"
)

// Observe says what each resource has and whether its runtime serves. It asks every host once.
func (s *Static) Observe(ctx context.Context, rs []provisioner.Resource) ([]provisioner.Observation, error) {
	ids := make([]uuid.UUID, len(rs))
	for i, r := range rs {
		ids[i] = r.ID
	}
	places, err := s.store.Places(ctx, s.pool, ids)
	if err != nil {
		return nil, fmt.Errorf("observe %d resources in %s: %w", len(rs), s.pool.Name, err)
	}
	answers := map[string]Host{}
	for _, p := range places {
		if p.Key != "" {
			answers[p.Key] = p.Host
		}
	}
	failed := s.askAll(ctx, answers)
	seen := make([]provisioner.Observation, len(rs))
	for i, r := range rs {
		p, there := places[r.ID]
		seen[i] = s.observed(r, p, there, failed[p.Key])
	}
	return seen, nil
}

// observed is what is to be said of one resource. failed is why its host does not serve.
func (s *Static) observed(r provisioner.Resource, p Place, there bool, failed error) provisioner.Observation {
	note, _ := provisioner.Decode[notes](r.State)
	switch {
	case note.Parked == reasonReleased && p.Key == "", note.Parked == reasonKept && p.Key != "":
		return parked(note.Parked, p)
	case !there:
		return provisioner.Observation{Phase: provisioner.PhaseAbsent}
	case p.Key == "":
		return provisioner.Observation{Phase: provisioner.PhasePending, Reason: reasonNoCapacity, Message: "waits for " + slots(p.Wanted)}
	case failed != nil && note.ReadyOn == p.Key:
		return provisioner.Observation{Phase: provisioner.PhaseUnknown, Reason: reasonPing, Message: failed.Error()}
	case failed != nil:
		return provisioner.Observation{Phase: provisioner.PhasePending, Reason: reasonPing, Message: failed.Error()}
	}
	o := provisioner.Observation{Phase: provisioner.PhaseReady}
	if args, err := readArgs(&r); err == nil && args.Slots != p.Slots {
		o.Drift = []string{"slots"}
	}
	if p.Wanted > p.Slots {
		o.Reason, o.Message = reasonNoCapacity, fmt.Sprintf("keeps %s and waits for %d", slots(p.Slots), p.Wanted)
	}
	return o
}

// askAll asks hosts side by side and returns why some of them do not serve.
func (s *Static) askAll(ctx context.Context, hosts map[string]Host) map[string]error {
	var (
		mu     sync.Mutex
		failed = map[string]error{}
		under  sync.WaitGroup
		room   = make(chan struct{}, defaults.PingsAtOnce)
	)
	for key, h := range hosts {
		room <- struct{}{}
		under.Go(func() {
			defer func() { <-room }()
			if err := s.pings.ping(ctx, h.URL); err != nil {
				mu.Lock()
				failed[key] = err
				mu.Unlock()
			}
		})
	}
	under.Wait()
	return failed
}

// Check asks every listed host and says how full they are. Hosts that are no longer listed but still hold something are told
// as problems.
func (s *Static) Check(ctx context.Context) (provisioner.Capacity, error) {
	runtimes, err := s.store.Runtimes(ctx, s.pool)
	if err != nil {
		return provisioner.Capacity{}, fmt.Errorf("check %s: %w", s.pool.Name, err)
	}
	waiting, err := s.store.Waiting(ctx, s.pool)
	if err != nil {
		return provisioner.Capacity{}, fmt.Errorf("check %s: %w", s.pool.Name, err)
	}
	hosts := map[string]Host{}
	for _, h := range runtimes {
		hosts[h.Key] = h.Host
	}
	failed := s.askAll(ctx, hosts)
	if err := ctx.Err(); err != nil {
		return provisioner.Capacity{}, err
	}
	var c provisioner.Capacity
	total, used := 0, 0
	for _, h := range runtimes {
		if err := failed[h.Key]; err != nil {
			c.Problems = append(c.Problems, err.Error())
		}
		used += h.Used
		if h.Removed {
			c.Problems = append(c.Problems, fmt.Sprintf("%s: no longer listed, and still holds %s", h.URL, slots(h.Used)))
			continue
		}
		total += h.Slots
		if h.Used > h.Slots {
			c.Problems = append(c.Problems, fmt.Sprintf("%s: holds %d of %s", h.URL, h.Used, slots(h.Slots)))
		}
		c.Hosts = append(c.Hosts, provisioner.Host{Name: h.URL, Slots: h.Slots, Used: h.Used, Closed: h.Closed()})
	}
	if waiting > 0 {
		c.Problems = append(c.Problems, fmt.Sprintf("waiting for room: %d", waiting))
	}
	c.Slots, c.Used = &total, &used
	return c, nil
}
