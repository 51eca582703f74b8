package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"berth/internal/defaults"
	"berth/internal/terminal"
	"berth/lifecycle"
)

// show prints a line for each change of the sample deployments.
type show struct {
	ad   *admin
	w    io.Writer
	ids  []uuid.UUID // that are waited for
	seen map[uuid.UUID]sight
}

// sight is what was printed last of a deployment.
type sight struct {
	state, more string
	at          time.Time
}

func newShow(ad *admin, w io.Writer, made []lifecycle.Deployment) *show {
	s := &show{ad: ad, w: w, seen: map[uuid.UUID]sight{}}
	for _, d := range made {
		s.ids = append(s.ids, d.ID)
		s.line(d)
	}
	return s
}

// look prints what changed since the last time. It returns the deployments that are waited for and do not run.
func (s *show) look(ctx context.Context) (waiting []lifecycle.Deployment, err error) {
	byID := map[uuid.UUID]lifecycle.Deployment{}
	page := lifecycle.Filter{Organization: demoOrganization, Project: demoProject, Limit: defaults.MaxPage}
	for {
		all, err := s.ad.List(ctx, s.ad.pool, page)
		if err != nil {
			return nil, err
		}
		for _, d := range all {
			byID[d.ID] = d
		}
		if len(all) < defaults.MaxPage {
			break
		}
		page.After = all[len(all)-1].ID
	}
	for _, d := range slices.SortedFunc(maps.Values(byID), func(a, b lifecycle.Deployment) int {
		return cmp.Or(a.UpdatedAt.Compare(b.UpdatedAt), bytes.Compare(a.ID[:], b.ID[:]))
	}) {
		s.line(d)
	}
	for id := range s.seen {
		if _, there := byID[id]; !there {
			s.line(lifecycle.Deployment{ID: id, State: lifecycle.Deleted})
			delete(s.seen, id)
		}
	}
	for _, id := range s.ids {
		if d := byID[id]; d.State != lifecycle.Running {
			d.ID = id
			waiting = append(waiting, d)
		}
	}
	return waiting, nil
}

func (s *show) line(d lifecycle.Deployment) {
	before, known := s.seen[d.ID]
	now := sight{state: d.State, at: time.Now()}
	// When it happened, and not when it was seen; but of what an earlier run made run it is told when that was found.
	if d.State != before.state && !d.UpdatedAt.IsZero() && (known || d.State != lifecycle.Running) {
		now.at = d.UpdatedAt.Local()
	}
	if d.State == lifecycle.Running {
		now.more = terminal.Clean(d.RuntimeHost)
	} else {
		now.more = terminal.Clean(strings.TrimPrefix(because(d), ": "))
	}
	if now.state == before.state && now.more == before.more {
		return
	}
	s.seen[d.ID] = now
	what := now.state
	if known && now.state != before.state {
		what = before.state + " → " + now.state
	}
	line := fmt.Sprintf("%s  %s  %-17s  %s", now.at.Format("15:04:05.000"), d.ID, what, now.more)
	if known {
		line += fmt.Sprintf("  (%v)", now.at.Sub(before.at).Round(time.Millisecond))
	}
	fmt.Fprintln(s.w, strings.TrimRight(line, " "))
}

// untilRunning prints changes until all run. Bounded, not doing so in time is an error that says why.
func (s *show) untilRunning(ctx context.Context, bounded bool) error {
	begun := time.Now()
	tick := time.NewTicker(defaults.DemoPoll)
	defer tick.Stop()
	for {
		waiting, err := s.look(ctx)
		if err != nil {
			return err
		}
		if len(waiting) == 0 {
			fmt.Fprintf(s.w, "all %d deployments run\n", len(s.ids))
			return nil
		}
		if bounded && time.Since(begun) > defaults.DemoTimeout {
			return late(waiting, len(s.ids))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func late(waiting []lifecycle.Deployment, of int) error {
	const told = 5
	var why []string
	for _, d := range waiting[:min(told, len(waiting))] {
		why = append(why, fmt.Sprintf("%s is %s%s", d.ID, d.State, because(d)))
	}
	if more := len(waiting) - len(why); more > 0 {
		why = append(why, fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("dev: %d of %d deployments do not run after %v: %s", len(waiting), of, defaults.DemoTimeout, strings.Join(why, "; "))
}

// follow prints changes until ctx ends.
func (s *show) follow(ctx context.Context) error {
	tick := time.NewTicker(defaults.DemoFollow)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if _, err := s.look(ctx); err != nil {
			return err
		}
	}
}
