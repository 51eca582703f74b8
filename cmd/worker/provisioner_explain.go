package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/google/uuid"

	"berth/db/dbstatic"
	"berth/internal/terminal"
	"berth/lifecycle"
)

type provisionerExplain struct {
	output
	Name  string `arg:"" name:"NAME" help:"The static provisioner."`
	Slots slots  `name:"slots" placeholder:"N" required:"" help:"How many slots a new resource would ask for."`
}

// explained is where a new resource would be placed, and why, host by host.
type explained struct {
	Provisioner string          `json:"provisioner"`
	Slots       int             `json:"slots"`
	Outcome     string          `json:"outcome"` // placed, waits or never_fits
	Message     string          `json:"message"`
	Spread      *string         `json:"spread"` // the host that this strategy gives it; null: none
	Pack        *string         `json:"pack"`
	Waiting     int             `json:"waiting"` // resources that came first and wait
	Hosts       []explainedHost `json:"hosts"`
}

type explainedHost struct {
	host
	Fits    bool       `json:"fits"`
	Why     string     `json:"why"`
	KeptFor *uuid.UUID `json:"kept_for"` // the resource that came first, could use it, and waits; null for none
}

// Run says where a resource of that size would be placed if it came now, or why not. It reserves nothing.
func (c *provisionerExplain) Run(ctx context.Context, a *app) error {
	return a.reading(ctx, func(ad *admin) error {
		k, err := ad.knownStatic(ctx, c.Name)
		if err != nil {
			return err
		}
		e, err := dbstatic.New(ad.pool).Explain(ctx, k.Name, int(c.Slots))
		if err != nil {
			return err
		}
		x := explanation(k.Name, int(c.Slots), e)
		all, err := ad.listed(ctx, []lifecycle.Known{k})
		if err != nil {
			return err
		}
		held := all[0].matter()
		return c.write(a.stdout, x, func() io.WriterTo { return explanationText(x, held) })
	})
}

func explanation(name string, n int, e dbstatic.Explanation) explained {
	x := explained{Provisioner: name, Slots: n, Waiting: e.Waiting, Hosts: []explainedHost{}}
	for _, v := range e.Verdicts {
		x.Hosts = append(x.Hosts, explainedHost{shownHost(v.Runtime), v.Fits, v.Why, nil})
		if v.KeptFor != uuid.Nil {
			x.Hosts[len(x.Hosts)-1].KeptFor = &v.KeptFor
		}
		for pack, to := range map[bool]**string{false: &x.Spread, true: &x.Pack} {
			if v.Key == e.Host(pack) {
				*to = &v.URL
			}
		}
	}
	switch {
	case e.Listed == 0:
		x.Outcome, x.Message = "never_fits", "no host is listed yet: start a worker that has the provisioner configured"
	case n > e.Listed:
		x.Outcome, x.Message = "never_fits", fmt.Sprintf("no host is that large: ask for %d at most, or configure a larger host", e.Listed)
	case x.Spread == nil:
		x.Outcome, x.Message = "waits", "it would wait, in order of arrival: make room on a host, or open one"
	case *x.Spread == *x.Pack:
		x.Outcome, x.Message = "placed", "it would be placed on "+*x.Spread
	default:
		x.Outcome, x.Message = "placed", fmt.Sprintf("it would be placed on %s by the strategy spread, on %s by pack", *x.Spread, *x.Pack)
	}
	return x
}

func explanationText(x explained, held matter) io.WriterTo {
	f := &terminal.Fields{}
	f.Add("provisioner", x.Provisioner)
	f.Add("slots", strconv.Itoa(x.Slots))
	f.Add("outcome", x.Message)
	if held.words != "" {
		f.Add("but", held.words+": "+held.remedy)
	}
	f.Add("waiting", strconv.Itoa(x.Waiting))
	if len(x.Hosts) == 0 {
		return f
	}
	t := terminal.NewTable(terminal.Column{Head: "HOST", Least: 20}, terminal.Column{Head: "SLOTS", Right: true}, terminal.Column{Head: "USED", Right: true},
		terminal.Column{Head: "FITS"}, terminal.Column{Head: "WHY", Least: 20})
	for _, h := range x.Hosts {
		fits := "no"
		if h.Fits {
			fits = "yes"
		}
		t.Row(h.Host, strconv.Itoa(h.Slots), strconv.Itoa(h.Used), fits, h.Why)
	}
	return several{f, text("\n"), t}
}
