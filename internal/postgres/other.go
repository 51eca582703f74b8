//go:build !unix || aix || solaris

package postgres

import (
	"context"
	"errors"
)

// Server is a running cluster that this process uses. There is none on this system.
type Server struct{}

var errUnsupported = errors.New("no private Postgres can be run on this system: set DATABASE_URL to a server that runs already")

// Start returns an error that says to set DATABASE_URL.
func Start(context.Context, Options) (*Server, error) { return nil, errUnsupported }

// URL is empty.
func (*Server) URL(string) string { return "" }

// Pid is 0.
func (*Server) Pid() int { return 0 }

// LogPath is empty.
func (*Server) LogPath() string { return "" }

// Restart does nothing.
func (*Server) Restart(context.Context, bool) error { return errUnsupported }

// Close does nothing.
func (*Server) Close() error { return nil }
