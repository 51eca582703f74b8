package static

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// maxExplained is how many hosts are told one by one. A message is read on one line and kept short of 4 KB.
const maxExplained = 10

// explain says why n slots are not there, host by host.
func (s *Static) explain(ctx context.Context, n int) string {
	text := fmt.Sprintf("no room for %s in %s", slots(n), s.pool.Name)
	hosts, err := s.store.Runtimes(ctx, s.pool)
	if err != nil {
		return text // why is for people, and asked for again at the next look
	}
	var each []string
	counts := map[string]int{}
	for _, h := range hosts {
		switch {
		case h.Removed:
			continue
		case len(each) < maxExplained:
			each = append(each, fmt.Sprintf("%s: %s", h.URL, stand(h)))
		default:
			counts[kind(h)]++
		}
	}
	if len(each) == 0 {
		return text
	}
	text += ": " + strings.Join(each, "; ")
	var rest []string
	for _, k := range []string{"open", "cordoned", "unhealthy"} {
		if counts[k] > 0 {
			rest = append(rest, fmt.Sprintf("%d %s", counts[k], k))
		}
	}
	if len(rest) > 0 {
		text += "; and more: " + strings.Join(rest, ", ")
	}
	return text
}

// cannotGrow says why a place does not get the slots that are wanted.
func (s *Static) cannotGrow(ctx context.Context, p Place) string {
	text := fmt.Sprintf("keeps %s and waits for %d on %s", slots(p.Slots), p.Wanted, p.URL)
	hosts, err := s.store.Runtimes(ctx, s.pool)
	if err != nil {
		return text
	}
	for _, h := range hosts {
		if h.Key == p.Key {
			return text + ": " + stand(h)
		}
	}
	return text
}

// stand says how much a host takes, or why nothing.
func stand(h Runtime) string {
	if why := h.Closed(); why != "" {
		return why
	}
	return fmt.Sprintf("%d of %d free", max(h.Slots-h.Used, 0), h.Slots)
}

// Closed says why a host takes no new resources; empty if it does.
func (h Runtime) Closed() string {
	switch {
	case h.Removed:
		return "removed from the configuration"
	case h.Cordoned:
		return "cordoned"
	case !h.UnhealthySince.IsZero():
		return "unhealthy since " + h.UnhealthySince.UTC().Format(time.RFC3339)
	}
	return ""
}

func kind(h Runtime) string {
	switch {
	case h.Cordoned:
		return "cordoned"
	case !h.UnhealthySince.IsZero():
		return "unhealthy"
	}
	return "open"
}

func slots(n int) string {
	if n == 1 {
		return "1 slot"
	}
	return fmt.Sprintf("%d slots", n)
}
