//go:build !unix || aix || solaris

package kubebuild

import (
	"context"
	"errors"
	"os"
)

func lock(context.Context, string, func()) (*os.File, error) {
	return nil, errors.New("not on this system: set " + Env + " to a program that was built")
}
