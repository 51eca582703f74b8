package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"berth/db/dbsqlc"
	"berth/db/dbstatic"
	"berth/internal/terminal"
	"berth/lifecycle"
	"berth/provisioner/static"
)

type provisionerList struct {
	output
	paging
	After string `name:"after" placeholder:"NAME" help:"Only those after this one: the last one of the page before."`
}

// listed is one provisioner, as it is shown. What has no meaning for its type is null.
type listed struct {
	Name             string  `json:"name"`
	Type             string  `json:"type"`
	Status           string  `json:"status"`
	Default          bool    `json:"default"`
	Workers          int64   `json:"workers"` // that are up and have it
	Resources        int64   `json:"resources"`
	Configuration    string  `json:"configuration"` // digest of the one that acts; empty if its workers are too old to tell
	Since            string  `json:"acts_since"`
	Behind           int64   `json:"resources_behind"` // were last driven under another one
	Waiting          []waits `json:"waiting_configurations"`
	SlotsTotal       *int    `json:"slots_total"`
	SlotsUsed        *int    `json:"slots_used"`
	LargestPlaceable *int    `json:"largest_placeable"`
	Hosts            *[]host `json:"hosts"`
}

// waits is a configuration that workers have, while another one acts.
type waits struct {
	Digest  string `json:"digest"`
	Workers int64  `json:"workers"`
}

type host struct {
	Host     string `json:"host"`
	Slots    int    `json:"slots"`
	Used     int    `json:"used"`
	Cordoned bool   `json:"cordoned"`
	Healthy  bool   `json:"healthy"`
	Removed  bool   `json:"removed"` // from the configuration: keeps what it has, takes no more
}

// Run lists what the database knows, so it works where nothing is configured, a page at a time.
func (c *provisionerList) Run(ctx context.Context, a *app) error {
	return a.reading(ctx, func(ad *admin) error {
		known, err := ad.ProvisionerPage(ctx, ad.pool, c.After, c.Limit)
		if err != nil {
			return err
		}
		page, err := ad.listed(ctx, known)
		if err != nil {
			return err
		}
		if err := c.write(a.stdout, page, func() io.WriterTo { return provisionerTables(page) }); err != nil {
			return err
		}
		c.full(a, len(page), func() string { return page[len(page)-1].Name })
		return nil
	})
}

// listed puts together what there is to say of some provisioners, in as many statements for one as for all.
func (ad *admin) listed(ctx context.Context, known []lifecycle.Known) ([]listed, error) {
	names := make([]string, len(known))
	var rolling []string
	for i, k := range known {
		names[i] = k.Name
		if k.Rolling {
			rolling = append(rolling, k.Name)
		}
	}
	places, err := dbsqlc.New().ProvisionerPlaces(ctx, ad.pool, names)
	if err != nil {
		return nil, fmt.Errorf("count resources: %w", err)
	}
	live, err := ad.workers(ctx)
	if err != nil {
		return nil, err
	}
	runtimes, err := dbstatic.New(ad.pool).RuntimesOf(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("list hosts: %w", err)
	}
	count := map[string]int64{}
	for _, p := range places {
		count[p.Provisioner] = p.Places
	}
	behind, err := ad.Behind(ctx, ad.pool, rolling...)
	if err != nil {
		return nil, err
	}
	configurations, err := ad.Configurations(ctx, ad.pool, names...)
	if err != nil {
		return nil, err
	}
	waiting := map[string][]waits{}
	for _, x := range configurations {
		if !x.Acts {
			waiting[x.Provisioner] = append(waiting[x.Provisioner], waits{x.Digest, x.Workers})
		}
	}
	all := make([]listed, len(known))
	for i, k := range known {
		all[i] = listed{Name: k.Name, Type: k.Type, Status: "ok", Default: k.Default, Workers: live[k.Name], Resources: count[k.Name],
			Configuration: k.Digest, Since: k.Since.Format(time.RFC3339), Behind: behind[k.Name], Waiting: append([]waits{}, waiting[k.Name]...)}
		switch {
		case k.Missing:
			all[i].Status = "missing"
		case k.Paused:
			all[i].Status = "paused"
		case k.BreakerOpen:
			all[i].Status = "breaker_open"
		}
		if k.Type == static.Type {
			all[i].room(runtimes[k.Name])
		}
	}
	return all, nil
}

func shownHost(r static.Runtime) host {
	return host{r.URL, r.Slots, r.Used, r.Cordoned, r.UnhealthySince.IsZero(), r.Removed}
}

// room fills in what is known of the hosts of a pool. One that left the configuration counts no more.
func (l *listed) room(runtimes []static.Runtime) {
	hosts := make([]host, len(runtimes))
	var total, used, largest int
	for i, r := range runtimes {
		h := shownHost(r)
		hosts[i] = h
		if h.Removed {
			continue
		}
		total, used = total+h.Slots, used+h.Used
		if h.Healthy && !h.Cordoned {
			largest = max(largest, h.Slots-h.Used)
		}
	}
	l.SlotsTotal, l.SlotsUsed, l.LargestPlaceable, l.Hosts = &total, &used, &largest, &hosts
}

func provisionerTables(all []listed) io.WriterTo {
	t := terminal.NewTable(terminal.Column{Head: "NAME", Least: 12}, terminal.Column{Head: "TYPE", Least: 6}, terminal.Column{Head: "STATUS"}, terminal.Column{Head: "DEFAULT"},
		terminal.Column{Head: "WORKERS", Right: true}, terminal.Column{Head: "RESOURCES", Right: true}, terminal.Column{Head: "SLOTS", Right: true}, terminal.Column{Head: "USED", Right: true}, terminal.Column{Head: "LARGEST FREE", Right: true})
	hosts := terminal.NewTable(terminal.Column{Head: "HOST", Least: 20}, terminal.Column{Head: "PROVISIONER", Least: 12},
		terminal.Column{Head: "SLOTS", Right: true}, terminal.Column{Head: "USED", Right: true}, terminal.Column{Head: "STANDING"})
	configurations := newConfigurations()
	any, differ := false, false
	for _, l := range all {
		isDefault := ""
		if l.Default {
			isDefault = "default"
		}
		t.Row(l.Name, l.Type, l.Status, isDefault, strconv.FormatInt(l.Workers, 10), strconv.FormatInt(l.Resources, 10), number(l.SlotsTotal), number(l.SlotsUsed), number(l.LargestPlaceable))
		if l.differs() {
			differ = true
			l.configurations(configurations)
		}
		if l.Hosts == nil {
			continue
		}
		for _, h := range *l.Hosts {
			any = true
			hosts.Row(h.Host, l.Name, strconv.Itoa(h.Slots), strconv.Itoa(h.Used), h.standing())
		}
	}
	tables := several{t}
	if differ {
		tables = append(tables, text("\n"), configurations)
	}
	if any {
		tables = append(tables, text("\n"), hosts)
	}
	return tables
}

func newConfigurations() *terminal.Table {
	return terminal.NewTable(terminal.Column{Head: "PROVISIONER", Least: 12}, terminal.Column{Head: "CONFIGURATION"},
		terminal.Column{Head: "WORKERS", Right: true}, terminal.Column{Head: "STANDING", Least: 20})
}

// differs reports whether there is more to say of its configuration than that it acts.
func (l listed) differs() bool { return l.Behind > 0 || len(l.Waiting) > 0 }

// acting is how many of the live workers that have it have the configuration that acts.
func (l listed) acting() int64 {
	n := l.Workers
	for _, w := range l.Waiting {
		n -= w.Workers
	}
	return n
}

// configurations says which one acts, how far its resources are, and which wait.
func (l listed) configurations(t *terminal.Table) {
	standing := "acts since " + l.Since
	if l.Behind > 0 {
		standing = fmt.Sprintf("acts; %d of %d resources are yet to be brought to it", l.Behind, l.Resources)
	}
	t.Row(l.Name, shortDigest(l.Configuration), strconv.FormatInt(l.acting(), 10), standing)
	for _, w := range l.Waiting {
		t.Row(l.Name, shortDigest(w.Digest), strconv.FormatInt(w.Workers, 10), "waits")
	}
}

func shortDigest(digest string) string {
	if digest == "" {
		return "not told"
	}
	return digest[:min(len(digest), 12)]
}

// standing says why a host takes no new resources, or that it does.
func (h host) standing() string {
	switch {
	case h.Removed:
		return "removed"
	case h.Cordoned && !h.Healthy:
		return "cordoned, unhealthy"
	case h.Cordoned:
		return "cordoned"
	case !h.Healthy:
		return "unhealthy"
	case h.Used >= h.Slots:
		return "full"
	}
	return "open"
}

func number(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}
