package main

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"berth/db/dbstatic"
	"berth/provisioner"
	"berth/provisioner/kubernetes"
	"berth/provisioner/static"
)

// installation marks our objects in a cluster. Nothing tells installations of Berth apart yet, so two of them do not share a provisioner's
// name within a namespace.
const installation = "berth"

// backends are the types of provisioners that there are, on a pool of the worker. Without one they can be looked at, and nothing
// more.
func backends(pool *pgxpool.Pool) provisioner.Registry {
	return provisioner.Registry{
		static.Type:     static.Factory(dbstatic.New(pool)),
		kubernetes.Type: kubernetes.Factory(installation),
	}
}
