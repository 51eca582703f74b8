package main

import (
	"context"
	"io"
	"slices"

	"github.com/jackc/pgx/v5"

	"berth/lifecycle"
)

// provisionerArgument names a provisioner that is paused or resumed.
type provisionerArgument struct {
	output
	Name string `arg:"" name:"NAME" help:"The provisioner."`
}

// change changes the provisioner and shows it.
func (p provisionerArgument) change(ctx context.Context, a *app, f func(*admin, pgx.Tx) error) error {
	return a.changing(ctx, func(ad *admin) error {
		if err := ad.tx(ctx, func(tx pgx.Tx) error { return f(ad, tx) }); err != nil {
			return err
		}
		known, err := ad.Provisioners(ctx, ad.pool)
		if err != nil {
			return err
		}
		shown, err := ad.listed(ctx, slices.DeleteFunc(known, func(k lifecycle.Known) bool { return k.Name != p.Name }))
		if err != nil {
			return err
		}
		return p.write(a.stdout, shown[0], func() io.WriterTo { return provisionerTables(shown) })
	})
}

// resourceArgument names a resource that is paused or resumed.
type resourceArgument struct {
	output
	ID id `arg:"" name:"ID" help:"The id of the resource, as deployment show tells it."`
}

// change changes the resource and shows it.
func (r resourceArgument) change(ctx context.Context, a *app, f func(*admin, pgx.Tx) error) error {
	return a.changing(ctx, func(ad *admin) error {
		if err := ad.tx(ctx, func(tx pgx.Tx) error { return f(ad, tx) }); err != nil {
			return err
		}
		return ad.showResource(ctx, a, r.output, r.ID.UUID)
	})
}
