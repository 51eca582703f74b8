package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/db/dbstatic"
	"berth/internal/defaults"
	"berth/internal/terminal"
	"berth/lifecycle"
	"berth/provisioner/static"
)

type provisionerShow struct {
	output
	Name string `arg:"" name:"NAME" help:"The provisioner."`
}

// shownProvisioner is one as in the listing, and what else is known of it.
type shownProvisioner struct {
	listed
	Supports       []string  `json:"supports"`
	TimeoutSeconds float64   `json:"timeout_seconds"` // how long a resource may be on its way there
	SeenAt         time.Time `json:"seen_at"`         // when a live worker last had it
	Waiting        *int      `json:"waiting"`         // resources that wait for room; null where that has no meaning
}

// Run shows the provisioner.
func (c *provisionerShow) Run(ctx context.Context, a *app) error {
	return a.reading(ctx, func(ad *admin) error {
		k, err := ad.known(ctx, c.Name)
		if err != nil {
			return err
		}
		all, err := ad.listed(ctx, []lifecycle.Known{k})
		if err != nil {
			return err
		}
		p := shownProvisioner{listed: all[0], Supports: k.Supports, TimeoutSeconds: k.Timeout.Seconds(), SeenAt: k.SeenAt}
		if k.Type == static.Type {
			n, err := dbstatic.New(ad.pool).Waiting(ctx, static.Pool{Name: k.Name})
			if err != nil {
				return fmt.Errorf("count who waits: %w", err)
			}
			p.Waiting = &n
		}
		return c.write(a.stdout, p, func() io.WriterTo { return provisionerText(p) })
	})
}

// known is what is known of a provisioner.
func (ad *admin) known(ctx context.Context, name string) (lifecycle.Known, error) {
	all, err := ad.Provisioners(ctx, ad.pool)
	if err != nil {
		return lifecycle.Known{}, err
	}
	i := slices.IndexFunc(all, func(k lifecycle.Known) bool { return k.Name == name })
	if i < 0 {
		return lifecycle.Known{}, &lifecycle.Error{Kind: lifecycle.ErrNotFound, What: fmt.Sprintf("provisioner %q", shortened([]byte(name))),
			Why: "it is not registered", Remedy: "see worker provisioner list"}
	}
	return all[i], nil
}

// knownStatic is known for what only a pool of runtimes has.
func (ad *admin) knownStatic(ctx context.Context, name string) (lifecycle.Known, error) {
	k, err := ad.known(ctx, name)
	if err == nil && k.Type != static.Type {
		err = &lifecycle.Error{Kind: lifecycle.ErrInvalid, What: fmt.Sprintf("provisioner %q", name),
			Why: fmt.Sprintf("it is of type %q and has no hosts", k.Type), Remedy: "name a static one"}
	}
	return k, err
}

func provisionerText(p shownProvisioner) io.WriterTo {
	f := &terminal.Fields{}
	f.Add("provisioner", p.Name)
	f.Add("type", p.Type)
	f.Add("status", p.Status)
	if m := p.matter(); m.words != "" {
		f.Add("matter", m.words)
		f.Add("what to do", m.remedy)
	}
	if p.Default {
		f.Add("default", "yes: for what neither project nor organization names another")
	}
	f.Add("supports", strings.Join(p.Supports, ", "))
	f.Add("workers", strconv.FormatInt(p.Workers, 10))
	f.Add("last seen", stamp(&p.SeenAt))
	f.Add("timeout", time.Duration(p.TimeoutSeconds*float64(time.Second)).String())
	f.Add("resources", strconv.FormatInt(p.Resources, 10))
	if p.Waiting != nil {
		f.Add("slots", fmt.Sprintf("%d of %d used, the largest free place is %d", *p.SlotsUsed, *p.SlotsTotal, *p.LargestPlaceable))
		f.Add("waiting", strconv.Itoa(*p.Waiting))
	}
	shown := several{f}
	if p.differs() {
		t := newConfigurations()
		p.configurations(t)
		shown = append(shown, text("\n"), t)
	}
	if p.Hosts == nil || len(*p.Hosts) == 0 {
		return shown
	}
	hosts := terminal.NewTable(terminal.Column{Head: "HOST", Least: 20}, terminal.Column{Head: "SLOTS", Right: true}, terminal.Column{Head: "USED", Right: true}, terminal.Column{Head: "STANDING"})
	for _, h := range *p.Hosts {
		hosts.Row(h.Host, strconv.Itoa(h.Slots), strconv.Itoa(h.Used), h.standing())
	}
	return append(shown, text("\n"), hosts)
}

// matter is what keeps a provisioner from being worked; nothing if it is.
func (l listed) matter() matter {
	switch {
	case l.Status == "missing":
		return matter{fmt.Sprintf("no live worker has had it for %v", defaults.MissingFor), "start a worker that has it configured"}
	case l.Status == "paused":
		return matter{"it is paused: nothing there is made, repaired or restarted", "worker provisioner resume " + l.Name}
	case l.Status == "breaker_open":
		return matter{"its backend does not answer a worker, which asks again by itself", "see to the backend, and to the network between it and the workers"}
	case l.Workers == 0:
		return matter{"no worker that has it is up", "start worker run"}
	case l.acting() == 0:
		return handOver(l.Name)
	}
	return matter{}
}
