//go:build !unix || aix || solaris

// Package filelock locks files among processes. It can not on this system.
package filelock

import (
	"context"
	"errors"
	"os"
)

// Lock returns an error.
func Lock(context.Context, string, func()) (*os.File, error) {
	return nil, errors.New("files can not be locked on this system")
}
