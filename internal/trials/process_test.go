package trials

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// patience is how long is waited for what has to come. What takes longest are the jobs of killed workers: River takes them for stuck after
// a minute and looks each half, and who looks may be among the killed.
const patience = 3 * time.Minute

// A process is a worker.
type process struct {
	t     *testing.T
	name  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	said  chan string
	ended chan struct{}
	id    uuid.UUID // how the others know it; it changes when it was taken for dead
	log   string    // path
}

// start starts a worker and waits until it takes jobs.
func (f *fleet) start(change ...func(*order)) *process {
	f.t.Helper()
	p := f.launch(change...)
	p.ready()
	return p
}

// launch starts a worker.
func (f *fleet) launch(change ...func(*order)) *process {
	f.t.Helper()
	o := f.order
	for _, c := range change {
		c(&o)
	}
	text, err := json.Marshal(o)
	require.NoError(f.t, err)
	self, err := os.Executable()
	require.NoError(f.t, err)
	n := int(f.started.Add(1))
	p := &process{
		t: f.t, name: "worker " + strconv.Itoa(n), said: make(chan string, 100), ended: make(chan struct{}),
		log: filepath.Join(f.logs, fmt.Sprintf("%03d.log", n)), cmd: exec.CommandContext(f.t.Context(), self),
	}
	p.cmd.Dir = f.t.TempDir()
	p.cmd.Env = append(os.Environ(), orderEnv+"="+string(text))
	file, err := os.Create(p.log)
	require.NoError(f.t, err)
	p.cmd.Stderr = file
	p.in, err = p.cmd.StdinPipe()
	require.NoError(f.t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(f.t, err)
	require.NoError(f.t, p.cmd.Start())
	go func() {
		defer close(p.said)
		defer close(p.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.said <- lines.Text()
		}
		_ = p.cmd.Wait()
		_ = file.Close()
	}()
	f.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
	return p
}

// hears waits for a line that begins with a word, and returns the rest of it.
func (p *process) hears(word string) string {
	p.t.Helper()
	late := time.After(patience)
	for {
		select {
		case line, ok := <-p.said:
			if !ok {
				require.FailNow(p.t, p.name+" ended before it said "+word, "%v", p.wait())
			}
			if rest, found := strings.CutPrefix(line, word); found {
				return strings.TrimSpace(rest)
			}
		case <-late:
			require.FailNow(p.t, p.name+" did not say "+word+" in time")
		}
	}
}

// heard reports whether the next thing that it said begins with a word.
func (p *process) heard(word string) bool {
	p.t.Helper()
	select {
	case line, ok := <-p.said:
		require.True(p.t, ok, "%s ended before it said %s", p.name, word)
		return strings.HasPrefix(line, word)
	default:
		return false
	}
}

func (p *process) ready() {
	p.t.Helper()
	id, err := uuid.Parse(p.hears("ready"))
	require.NoError(p.t, err)
	p.id = id
}

func (p *process) tell(line string) {
	p.t.Helper()
	_, err := io.WriteString(p.in, line+"\n")
	require.NoError(p.t, err)
}

// arm has it stand still at a place, of which it says "at".
func (p *process) arm(h hold) {
	p.t.Helper()
	text, err := json.Marshal(h)
	require.NoError(p.t, err)
	p.tell("hold " + string(text))
	p.hears("armed")
}

// drain waits until the runs that were under way are over, and returns how many writes were refused so far.
func (p *process) drain() int {
	p.t.Helper()
	p.tell("drain")
	n, err := strconv.Atoi(p.hears("drained"))
	require.NoError(p.t, err)
	return n
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s), p.name)
}

// wait returns how it ended.
func (p *process) wait() syscall.WaitStatus {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		require.FailNow(p.t, p.name+" did not end")
	}
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(p.t, ok)
	return status
}

// alive reports whether it still runs.
func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}
