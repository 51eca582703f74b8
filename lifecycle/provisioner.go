package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"berth/db/dbsqlc"
	"berth/internal/defaults"
	"berth/provisioner"
)

// Known is a provisioner as the database knows it. Admin processes have no configuration of provisioners: this is how they
// learn what may be chosen.
type Known struct {
	Name     string
	Type     string
	Supports []string
	Default  bool
	Missing  bool // no live worker has had it for ten minutes
	Paused   bool // nothing is made, repaired or restarted there
	// BreakerOpen: some live worker found that its backend does not answer, and leaves it alone but for a try now and then.
	BreakerOpen bool
	SeenAt      time.Time
	Timeout     time.Duration // how long a resource may be on its way there before that is an error
	Digest      string        // of the configuration that acts; empty: of workers that announce none
	Since       time.Time     // that it acts
	Rolling     bool          // what there is is being brought to it
}

func (k Known) supports(t string) bool { return slices.Contains(k.Supports, t) }

// Provisioners lists all that is registered, by name.
func (c *Client) Provisioners(ctx context.Context, tx dbsqlc.DBTX) ([]Known, error) {
	return c.provisioners(ctx, tx, "", math.MaxInt32)
}

// ProvisionerPage is Provisioners a page at a time: so many, or defaults.Page if zero, after the one named.
func (c *Client) ProvisionerPage(ctx context.Context, tx dbsqlc.DBTX, after string, limit int) ([]Known, error) {
	if err := cmp.Or(checkLimit(limit), checkFilter("provisioner", after, provisioner.ValidName(after) == nil)); err != nil {
		return nil, err
	}
	return c.provisioners(ctx, tx, after, cmp.Or(limit, defaults.Page))
}

func (c *Client) provisioners(ctx context.Context, tx dbsqlc.DBTX, after string, limit int) ([]Known, error) {
	rows, err := c.q.ProvisionerList(ctx, tx, &dbsqlc.ProvisionerListParams{MissingFor: defaults.MissingFor, After: after, Most: int32(limit)})
	if err != nil {
		return nil, stored(err, "list provisioners")
	}
	out := make([]Known, len(rows))
	for i, r := range rows {
		out[i] = Known{r.Name, r.Type, r.Supports, r.IsDefault, r.Missing, r.Paused, r.BreakerOpen, r.SeenAt.UTC(), r.Timeout, r.Digest, r.ActsSince.UTC(), r.Rolling}
	}
	return out, nil
}

// A Configured provisioner is one of the configured set, as a process that sees the set registers it.
type Configured struct {
	Name string
	Type string
	Info provisioner.Info
}

// RegisterProvisioners makes names known that are not, so that an admin can enqueue before the first worker starts, and sets
// the default where there is none. It changes nothing that is known: see [Client.DescribeProvisioner] and
// [Client.HandOverDefault]. A name that is known with another type is a conflict. One registers at a time, so the transaction
// should be short.
func (c *Client) RegisterProvisioners(ctx context.Context, tx pgx.Tx, set []Configured, defaultName string) error {
	set = slices.SortedFunc(slices.Values(set), func(a, b Configured) int { return cmp.Compare(a.Name, b.Name) })
	if err := checkConfigured(set, defaultName); err != nil {
		return err
	}
	p := &dbsqlc.ProvisionerRegisterParams{}
	for _, s := range set {
		p.Names, p.Types = append(p.Names, s.Name), append(p.Types, s.Type)
		p.Supports = append(p.Supports, supports(s.Info))
		p.Timeouts = append(p.Timeouts, cmp.Or(s.Info.Timeout, defaults.Timeout))
	}
	if err := c.q.ProvisionerRegistering(ctx, tx, registering); err != nil {
		return stored(err, "wait to register provisioners")
	}
	retyped, err := c.q.ProvisionerRetyped(ctx, tx, &dbsqlc.ProvisionerRetypedParams{Names: p.Names, Types: p.Types})
	if err != nil {
		return stored(err, "look for provisioners whose type changed")
	}
	if len(retyped) > 0 {
		r := retyped[0]
		return refuse(ErrConflict, fmt.Sprintf("provisioner %q", r.Name),
			fmt.Sprintf("it is of type %q with %d resources and configured as %q", r.Type, r.Places, r.Wanted),
			"give the new one another name, or restore its type")
	}
	if _, err := c.q.ProvisionerRegister(ctx, tx, p); err != nil {
		return stored(err, "register provisioners")
	}
	known, err := c.Provisioners(ctx, tx)
	if err != nil {
		return err
	}
	if defaultName == "" || slices.ContainsFunc(known, func(k Known) bool { return k.Default }) {
		return nil
	}
	_, err = c.q.ProvisionerDefaultSet(ctx, tx, defaultName)
	return stored(err, "set the default provisioner")
}

// registering is the advisory lock of those who register and set the default: "berthreg" in ASCII.
const registering = 0x6265727468726567

// choice is what the provisioner of a new place is chosen from.
type choice struct {
	known map[string]Known
}

func (c *Client) choice(ctx context.Context, tx dbsqlc.DBTX) (choice, error) {
	all, err := c.Provisioners(ctx, tx)
	if err != nil {
		return choice{}, err
	}
	known := make(map[string]Known, len(all))
	for _, k := range all {
		known[k.Name] = k
	}
	return choice{known}, nil
}

// names lists those that support a type.
func (ch choice) names(t string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(ch.known)) {
		if ch.known[name].supports(t) {
			out = append(out, name)
		}
	}
	return out
}

// check refuses a name that a person chose and that can not make the type.
func (ch choice) check(name, t string) error {
	k, ok := ch.known[name]
	if ok && k.supports(t) {
		return nil
	}
	why := "it is not registered"
	if ok {
		why = fmt.Sprintf("it does not support resources of type %q", t)
	}
	remedy := "configure one that does and start a worker with it"
	if able := ch.names(t); len(able) > 0 {
		remedy = "choose one of " + strings.Join(able, ", ")
	}
	return refuse(ErrInvalid, "provisioner "+quote(name), why, remedy)
}

// resolve chooses the provisioner of a resource that has no place yet: the one asked for, else the project's, else the
// organization's default, else the global default, else the only one there is. One that does not support the type is never
// chosen.
func (ch choice) resolve(t, asked string, project, organization *string) (string, error) {
	if asked != "" {
		return asked, ch.check(asked, t)
	}
	for _, set := range []*string{project, organization} {
		if set != nil && ch.known[*set].supports(t) {
			return *set, nil
		}
	}
	able := ch.names(t)
	for _, name := range able {
		if ch.known[name].Default {
			return name, nil
		}
	}
	if len(able) == 1 {
		return able[0], nil
	}
	if len(able) == 0 {
		return "", refuse(ErrInvalid, fmt.Sprintf("resource of type %q", t), "no registered provisioner supports it",
			"configure one and start a worker with it")
	}
	return "", refuse(ErrInvalid, fmt.Sprintf("resource of type %q", t), "several provisioners support it and none of them is the default",
		"name one of "+strings.Join(able, ", "))
}

// checkConfigured refuses what the table would. The set is sorted by name.
func checkConfigured(set []Configured, defaultName string) error {
	found := defaultName == ""
	for i, s := range set {
		what := "provisioner " + quote(s.Name)
		switch {
		case provisioner.ValidName(s.Name) != nil:
			return refuse(ErrInvalid, what, "the name does not fit", "use up to 48 of a-z, 0-9 and single dashes between them")
		case i > 0 && s.Name == set[i-1].Name:
			return refuse(ErrInvalid, what, "it is configured twice", "give each its own name")
		case !typeForm.MatchString(s.Type):
			return refuse(ErrInvalid, what, "its type "+quote(s.Type)+" does not fit", "name the type of the backend, such as static")
		case len(s.Info.Types) == 0:
			return refuse(ErrInvalid, what, "it supports no type of resource", "have its Info name one")
		case s.Info.Timeout < 0:
			return refuse(ErrInvalid, what, fmt.Sprintf("its timeout %s is below zero", s.Info.Timeout), "leave it at zero for the default")
		}
		for _, t := range s.Info.Types {
			if !typeForm.MatchString(string(t)) {
				return refuse(ErrInvalid, what, "it supports the type "+quote(string(t))+", whose name does not fit", "use 1 to 63 of a-z, 0-9, underscore and dash, the first a letter")
			}
		}
		found = found || s.Name == defaultName
	}
	if !found {
		return refuse(ErrInvalid, "default provisioner "+quote(defaultName), "it is not configured", "name one of the configured set")
	}
	return nil
}
