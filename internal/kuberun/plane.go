package kuberun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"berth/internal/kubebuild"
)

const (
	startBound = 5 * time.Minute  // it takes seconds, and a minute on a machine that is very busy
	stopBound  = 10 * time.Second // it takes a moment
)

// Options say how a control plane is made. Zero takes the program's own defaults.
type Options struct {
	Nodes       int    // 3 if 0
	CPU, Memory string // of each node, as quantities: 128 and 1Ti if empty
	Pods        int    // that each node takes: 2,000 if 0
}

func (o Options) args() []string {
	var args []string
	add := func(name, value string) {
		if value != "" && value != "0" {
			args = append(args, "--"+name, value)
		}
	}
	add("nodes", strconv.Itoa(o.Nodes))
	add("cpu", o.CPU)
	add("memory", o.Memory)
	add("pods", strconv.Itoa(o.Pods))
	return args
}

// A Plane is a control plane. Its methods may be called at any time, side by side.
type Plane struct {
	dir     string
	program string
	args    []string

	mu         sync.Mutex
	process    *process // nil while it is stopped
	kubeconfig string
}

// LeftOut reports whether BERTH_TESTKUBE says that there is to be no control plane.
func LeftOut() bool { return os.Getenv(kubebuild.Env) == kubebuild.None }

// Open builds the program if it has to, starts a control plane, and returns when it can be used. It takes seconds, and minutes where it has
// to be built, of which logf is told. Close ends it; it also ends when this process does, however that ends. The error is one line.
func Open(ctx context.Context, o Options, logf func(format string, args ...any)) (*Plane, error) {
	program, err := kubebuild.Program(ctx, logf)
	if err != nil {
		return nil, err
	}
	swept.Do(func() { sweep(os.Getpid()) }) // this process has made none yet: one of its number is an earlier one's
	dir, err := os.MkdirTemp("", dirPrefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return nil, err
	}
	p := &Plane{dir: dir, program: program, args: append([]string{"--dir", dir, "--leash"}, o.args()...)}
	if err := p.Start(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// Start starts the control plane again after Stop: on the same port, with the same objects, certificates and tokens. It returns when it can
// be used.
func (p *Plane) Start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process != nil {
		return errors.New("the control plane runs already")
	}
	log := filepath.Join(p.dir, "testkube.log")
	started, err := launch(p.program, p.args, log)
	if err != nil {
		return fmt.Errorf("start the control plane: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startBound, fmt.Errorf("it was not usable after %v", startBound))
	defer cancel()
	for ready := started.ready; err == nil; {
		select {
		case path, ok := <-ready:
			if ok {
				p.process, p.kubeconfig = started, path
				return nil
			}
			ready = nil // it will not say so any more: it ends, or is ended
		case <-started.ended:
			err = errors.Join(started.wait(), errors.New(lastLine(log)))
		case <-ctx.Done():
			err = errors.Join(context.Cause(ctx), started.signal(syscall.SIGKILL))
			_ = started.wait() // killed, as it was told
		}
	}
	return fmt.Errorf("start the control plane: %s", strings.ReplaceAll(err.Error(), "\n", ": "))
}

// Stop ends the process with a signal, and returns once it has ended. It may be stopped already, or hang.
func (p *Plane) Stop(with syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	process := p.process
	if process == nil {
		return nil
	}
	p.process = nil
	for _, s := range []syscall.Signal{with, syscall.SIGCONT} {
		if err := process.signal(s); err != nil {
			return fmt.Errorf("stop the control plane: %w", err)
		}
	}
	late := time.NewTimer(stopBound)
	defer late.Stop()
	select {
	case <-process.ended:
		return nil
	case <-late.C:
		return errors.Join(fmt.Errorf("the control plane did not stop in %v", stopBound), process.signal(syscall.SIGKILL), process.wait())
	}
}

// Close ends the control plane, and everything that it knew goes.
func (p *Plane) Close() error { return errors.Join(p.Stop(syscall.SIGTERM), os.RemoveAll(p.dir)) }

// Signal sends a signal to the process. It is an error if that was stopped.
func (p *Plane) Signal(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil {
		return errors.New("the control plane is stopped")
	}
	return p.process.signal(s)
}

// Running reports whether the control plane was started and not stopped since.
func (p *Plane) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.process != nil
}

// Kubeconfig is the path of the administrator's. It stays good when the control plane is started again.
func (p *Plane) Kubeconfig() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kubeconfig
}

// Dir is where everything is that the control plane knows.
func (p *Plane) Dir() string { return p.dir }

// PID is the number of the process; 0 if it is stopped.
func (p *Plane) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil {
		return 0
	}
	return p.process.cmd.Process.Pid
}

func lastLine(path string) string {
	text, _ := os.ReadFile(path)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}
