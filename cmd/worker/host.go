package main

import (
	"context"
	"errors"
	"fmt"
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
	if _, err := ad.knownStatic(ctx, h.Name); err != nil {
		return err
	}
	store := dbstatic.New(ad.pool)
	err := store.Cordon(ctx, h.Name, h.Host, cordoned)
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
