package kuberun

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// process is a running program, which ends with this one: its stdin is a pipe that nothing is written to, and where the system has that,
// it is killed.
type process struct {
	cmd   *exec.Cmd
	ready chan string   // gets the line that says that it is usable, or is closed
	ended chan struct{} // is closed when it has ended
	err   error         // why it ended, from then on
}

// launch starts a program. What it says on stderr is added to a file.
func launch(program string, args []string, log string) (*process, error) {
	stderr, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	cmd := exec.Command(program, args...) //nolint:noctx // it outlives the call that starts it
	p := &process{cmd: cmd, ready: make(chan string, 1), ended: make(chan struct{})}
	p.cmd.Stderr = stderr
	p.cmd.SysProcAttr = attributes()
	leash, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started := make(chan error)
	go func() {
		// The system takes the end of the thread that started a process for the end of its parent.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.follow(stdout, leash)
		}
	}()
	return p, <-started
}

// follow waits for the process to end.
func (p *process) follow(stdout io.Reader, leash io.Closer) {
	defer close(p.ended)
	r := bufio.NewReader(stdout)
	if line, err := r.ReadString('\n'); err == nil {
		p.ready <- strings.TrimSpace(line)
	}
	close(p.ready)
	_, _ = io.Copy(io.Discard, r)
	p.err = p.cmd.Wait()
	_ = leash.Close()
}

// wait waits until it has ended, and returns why it did.
func (p *process) wait() error {
	<-p.ended
	return p.err
}

// signal sends a signal, unless it has ended.
func (p *process) signal(s syscall.Signal) error {
	select {
	case <-p.ended:
		return nil
	default:
	}
	if err := p.cmd.Process.Signal(s); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
