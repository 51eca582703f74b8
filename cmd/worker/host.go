package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"berth/db/dbstatic"
	"berth/lifecycle"
	"berth/provisioner/static"
)

// hostArguments name a host of a static pool.
type hostArguments struct {
	Name string `arg:"" name:"NAME" help:"The static provisioner."`
	Host string `arg:"" name:"HOST" help:"The host, in any spelling, such as http://10.0.0.1:8081."`
}

// cordon closes the host to new resources, or opens it again. What is so already counts as done.
func (h hostArguments) cordon(ctx context.Context, ad *admin, cordoned bool) error {
	known, err := ad.Provisioners(ctx, ad.pool)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(known, func(k lifecycle.Known) bool { return k.Name == h.Name })
	if i < 0 {
		return &lifecycle.Error{Kind: lifecycle.ErrNotFound, What: fmt.Sprintf("provisioner %q", shortened([]byte(h.Name))),
			Why: "it is not registered", Remedy: "see worker provisioner list"}
	}
	if known[i].Type != static.Type {
		return &lifecycle.Error{Kind: lifecycle.ErrInvalid, What: fmt.Sprintf("provisioner %q", h.Name),
			Why: fmt.Sprintf("it is of type %q and has no hosts", known[i].Type), Remedy: "name a static one"}
	}
	store := dbstatic.New(ad.pool)
	err = store.Cordon(ctx, h.Name, h.Host, cordoned)
	if !errors.Is(err, dbstatic.ErrNoHost) {
		return err
	}
	missing := &lifecycle.Error{Kind: lifecycle.ErrNotFound, What: fmt.Sprintf("host %q of provisioner %q", h.Host, h.Name),
		Why: "there is no such host", Remedy: "see worker provisioner list"}
	hosts, err := store.Runtimes(ctx, static.Pool{Name: h.Name})
	if err != nil {
		return fmt.Errorf("list hosts: %w", err)
	}
	const most = 5
	if n := len(hosts); n > 0 && n <= most {
		var names []string
		for _, r := range hosts {
			names = append(names, r.URL)
		}
		missing.Remedy = "use one of " + strings.Join(names, ", ")
	}
	return missing
}
