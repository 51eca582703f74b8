package main

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"berth/lifecycle"
	"berth/provisioner"
	"berth/provisioner/set"
)

// setFlags give the configured set of provisioners.
type setFlags struct {
	ProvisionerSet     string `name:"provisioner-set" placeholder:"JSON" setting:"RILL_ADMIN_PROVISIONER_SET_JSON" help:"The configured provisioners, as JSON with comments."`
	DefaultProvisioner string `name:"default-provisioner" placeholder:"NAME" setting:"RILL_ADMIN_DEFAULT_PROVISIONER" help:"Which of them is used where none is chosen."`
}

// versionFlag says what the version latest means.
type versionFlag struct {
	RuntimeVersion runtimeVersion `name:"runtime-version" placeholder:"VERSION" help:"The version that latest means, where a provisioner runs versions: such as 1.2.3, or a commit. Latest itself if not given."`
}

// options are what the flags say of all provisioners.
func (f versionFlag) options() provisioner.Options {
	return provisioner.Options{RuntimeVersion: string(f.RuntimeVersion)}
}

// configured is what was said of the provisioners, before anybody looked whether it makes sense. It is read once: what the files
// hold may change.
type configured struct {
	set, defaultName given
	options          provisioner.Options
}

// configured reads what the flags say, and the environment where they say nothing.
func (a *app) configured(f setFlags) configured {
	return configured{
		set:         a.setting(set.EnvSet, "--provisioner-set", f.ProvisionerSet),
		defaultName: a.setting(set.EnvDefault, "--default-provisioner", f.DefaultProvisioner),
	}
}

// parse makes the set. Without a pool it can be looked at, and nothing more. Its faults name what gave the text.
func (c configured) parse(pool *pgxpool.Pool) (*set.Set, error) {
	name := c.defaultName.text
	if strings.HasSuffix(c.defaultName.by, set.EnvFile) {
		name = strings.TrimSpace(name)
	}
	s, err := set.Parse(c.set.text, name, backends(pool), c.options)
	faults := append(provisioner.Faults{}, c.set.faults...)
	for _, f := range provisioner.FaultsOf(err) {
		switch by := map[string]given{set.EnvSet: c.set, set.EnvDefault: c.defaultName}[f.Path]; {
		case len(by.faults) > 0:
			continue // it could not be read, and that is told
		case by.by != "":
			f.Path = by.by
		}
		faults = append(faults, f)
	}
	if faults = append(faults, c.defaultName.faults...); len(faults) == 0 {
		return s, nil
	}
	if s != nil {
		_ = s.Close() // the faults are what to tell
	}
	return nil, faults
}

// registered is what is to be known of a set.
type registered struct {
	all         []lifecycle.Configured
	defaultName string
}

// look checks the set and returns what is to be known of it.
func (c configured) look() (registered, error) {
	s, err := c.parse(nil)
	if err != nil {
		return registered{}, err
	}
	return known(s), s.Close()
}

// lookIfSet is look for commands that work without a set too.
func (c configured) lookIfSet() (registered, error) {
	if !c.set.is() {
		return registered{}, nil
	}
	return c.look()
}

func known(s *set.Set) registered {
	r := registered{defaultName: s.Default()}
	for _, e := range s.All() {
		r.all = append(r.all, lifecycle.Configured{Name: e.Name, Type: e.Type, Info: e.Provisioner.Info()})
	}
	return r
}

// register makes provisioners known that are not.
func (ad *admin) register(ctx context.Context, r registered) error {
	if len(r.all) == 0 {
		return nil
	}
	return ad.tx(ctx, func(tx pgx.Tx) error { return ad.RegisterProvisioners(ctx, tx, r.all, r.defaultName) })
}
