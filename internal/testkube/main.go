// Command testkube is a whole Kubernetes control plane in one process, for tests: etcd, the API server with RBAC, the controller
// manager with its garbage collector, the scheduler, and simulated nodes and volumes. Nothing of it runs containers: what becomes of a
// pod is decided by its annotations (see kubelet.go).
//
// It is a module of its own, so that nothing of Kubernetes' own code enters the product's go.mod. Package kubetest of the product builds
// it, runs it and gives tests what they need of it.
//
//	testkube --dir DIR
//
// prints one line on stdout once the control plane is usable: the path of the administrator's kubeconfig. Everything that it knows is in
// DIR, the port too: killed in any way and started again on the same DIR it goes on, and clients find it where it was. It ends on SIGTERM
// and, with --leash, when its stdin does, which is when the process at the other end of that pipe is gone.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"k8s.io/apimachinery/pkg/api/resource"
)

// garbage is how many percent of what is in use may be garbage before it is collected, if GOGC does not say so. Memory is what a machine
// that tests has more of than processors.
const garbage = 300

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "testkube:", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	dir         string
	leash       bool
	nodes       int
	cpu, memory resource.Quantity // of each node
	pods        int               // of each node
}

func parse(args []string) (options, error) {
	o := options{cpu: resource.MustParse("128"), memory: resource.MustParse("1Ti")}
	f := flag.NewFlagSet("testkube", flag.ContinueOnError)
	f.StringVar(&o.dir, "dir", "", "where everything is kept; made if it is not there")
	f.BoolVar(&o.leash, "leash", false, "end when stdin does")
	f.IntVar(&o.nodes, "nodes", 3, "how many nodes are simulated")
	f.Func("cpu", "of each node", func(s string) (err error) { o.cpu, err = resource.ParseQuantity(s); return err })
	f.Func("memory", "of each node", func(s string) (err error) { o.memory, err = resource.ParseQuantity(s); return err })
	f.IntVar(&o.pods, "pods", 2000, "how many pods a node takes")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("what is %q? there are only flags", f.Arg(0))
	case o.dir == "":
		return o, errors.New("--dir is missing")
	case o.nodes < 0 || o.nodes > 200:
		return o, errors.New("--nodes is from 0 to 200")
	}
	return o, nil
}

var errAlone = errors.New("the process that this one was started for is gone")

func run(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if o.leash {
		go func() {
			_, _ = io.Copy(io.Discard, stdin)
			cancel(errAlone)
		}()
	}
	c, err := start(ctx, o)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, c.kubeconfig)
	// Nothing is shut down in order: it may be killed at any time anyway, and what etcd was told is in its files.
	select {
	case err := <-c.failed:
		return err
	case <-ctx.Done():
		return nil
	}
}
