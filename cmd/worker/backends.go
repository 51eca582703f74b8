package main

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"berth/db"
	"berth/db/dbstatic"
	"berth/provisioner"
	"berth/provisioner/kubernetes"
	"berth/provisioner/static"
)

// backends are the types of provisioners that there are, on a pool of the worker. Without one they can be looked at, and nothing
// more.
func backends(pool *pgxpool.Pool) provisioner.Registry {
	installation := func(ctx context.Context) (string, error) { return db.Installation(ctx, pool) }
	return provisioner.Registry{
		kubernetes.Type: kubernetes.Factory(installation),
		static.Type:     static.Factory(dbstatic.New(pool)),
	}
}
