package kubetest

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// Runner is a *testing.M, or one that does something more.
type Runner interface{ Run() int }

// Main is the TestMain of a package whose tests use the control plane: it runs them, ends it, and fails when goroutines are left over. The
// options are for goroutines that a package cannot end.
func Main(m *testing.M, ignore ...goleak.Option) {
	code := Ending(m).Run()
	if code == 0 {
		if err := goleak.Find(ignore...); err != nil {
			fmt.Fprintln(os.Stderr, "kubetest: goroutines are left over:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// Ending runs what m does, then ends the control plane. It is for packages whose TestMain ends something else too:
// dbtest.Main(kubetest.Ending(m)).
func Ending(m Runner) Runner { return ending{m} }

type ending struct{ m Runner }

func (e ending) Run() int {
	code := e.m.Run()
	if err := end(); err != nil {
		fmt.Fprintln(os.Stderr, "kubetest:", err)
		code = max(code, 1)
	}
	return code
}

// shared is the control plane of this process, started by whoever asks first.
var shared struct {
	sync.Mutex
	cluster *Cluster
	err     error
}

func common() (*Cluster, error) {
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster == nil && shared.err == nil {
		shared.cluster, shared.err = open(Options{})
	}
	return shared.cluster, shared.err
}

func end() error {
	shared.Lock()
	defer shared.Unlock()
	c := shared.cluster
	shared.cluster, shared.err = nil, errors.New("the control plane was ended already")
	if c == nil {
		return nil
	}
	return c.plane.Close()
}
