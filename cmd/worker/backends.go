package main

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"berth/db/dbstatic"
	"berth/provisioner"
	"berth/provisioner/static"
)

// backends are the types of provisioners that there are, on a pool of the worker. Without one they can be looked at, and nothing
// more.
func backends(pool *pgxpool.Pool) provisioner.Registry {
	return provisioner.Registry{
		static.Type: static.Factory(dbstatic.New(pool)),
	}
}
