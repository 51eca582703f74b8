package main

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"berth/lifecycle"
	"berth/provisioner/set"
)

// setFlags give the configured set of provisioners.
type setFlags struct {
	ProvisionerSet     string `name:"provisioner-set" placeholder:"JSON" envvar:"RILL_ADMIN_PROVISIONER_SET_JSON" help:"The configured provisioners, as JSON with comments."`
	DefaultProvisioner string `name:"default-provisioner" placeholder:"NAME" envvar:"RILL_ADMIN_DEFAULT_PROVISIONER" help:"Which of them is used where none is chosen."`
}

// parse makes the set. Without a pool it can be looked at, and nothing more.
func (f setFlags) parse(pool *pgxpool.Pool) (*set.Set, error) {
	return set.Parse(f.ProvisionerSet, f.DefaultProvisioner, backends(pool))
}

// registered is what is to be known of a set.
type registered struct {
	all         []lifecycle.Configured
	defaultName string
}

// look checks the set and returns what is to be known of it.
func (f setFlags) look() (registered, error) {
	s, err := f.parse(nil)
	if err != nil {
		return registered{}, err
	}
	return known(s), s.Close()
}

// lookIfSet is look for commands that work without a set too.
func (f setFlags) lookIfSet() (registered, error) {
	if f.ProvisionerSet == "" {
		return registered{}, nil
	}
	return f.look()
}

// envSet is the set that the environment names.
func (a *app) envSet() setFlags {
	var f setFlags
	f.ProvisionerSet, _ = a.lookupEnv(set.EnvSet)
	f.DefaultProvisioner, _ = a.lookupEnv(set.EnvDefault)
	return f
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
