package reconcile

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"berth/db"
	"berth/internal/defaults"
	"berth/provisioner/provisionertest"
)

// when a connection is cut.
type when int

const (
	not    when = iota
	before      // the server does not get the message
	after       // it did all that it said, and nobody hears of it
)

// wires dials connections that a test cuts at a chosen statement.
type wires struct {
	mu   sync.Mutex
	cut  func(statement, earlier string) when // earlier are the statements since the transaction began
	cuts int
}

var errCut = errors.New("the connection was cut")

// arm has the next n statements that match cut their connections.
func (w *wires) arm(n int, at when, matches func(statement, earlier string) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = func(statement, earlier string) when {
		if n == 0 || !matches(statement, earlier) {
			return not
		}
		n--
		w.cuts++
		return at
	}
}

func (w *wires) done() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cuts
}

func (w *wires) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &wire{Conn: c, of: w, names: map[string]string{}}, nil
}

// wire understands as much of what a client says as is needed to know which statement is run.
type wire struct {
	net.Conn
	of      *wires
	started bool
	rest    []byte
	names   map[string]string // prepared statements
	earlier string

	mu  sync.Mutex
	end bool // with the next answer
}

func (w *wire) Write(b []byte) (int, error) {
	w.rest = append(w.rest, b...)
	for len(w.rest) >= 5 {
		head := 1
		if !w.started {
			head = 0
		}
		size := head + int(binary.BigEndian.Uint32(w.rest[head:]))
		if len(w.rest) < size {
			break
		}
		kind, body := w.rest[0], string(w.rest[head+4:size])
		w.rest = w.rest[size:]
		if !w.started {
			w.started = true
			continue
		}
		statement := ""
		switch kind {
		case 'Q':
			statement, _, _ = strings.Cut(body, "\x00")
		case 'P':
			name, text, _ := strings.Cut(body, "\x00")
			w.names[name], _, _ = strings.Cut(text, "\x00")
		case 'B':
			_, text, _ := strings.Cut(body, "\x00")
			name, _, _ := strings.Cut(text, "\x00")
			statement = w.names[name]
		}
		if statement == "" {
			continue
		}
		if strings.HasPrefix(statement, "begin") {
			w.earlier = ""
		}
		w.of.mu.Lock()
		at := not
		if w.of.cut != nil {
			at = w.of.cut(statement, w.earlier)
		}
		w.of.mu.Unlock()
		w.earlier += statement + "\n"
		switch at {
		case before:
			_ = w.Close()
			return 0, errCut
		case after:
			w.mu.Lock()
			w.end = true
			w.mu.Unlock()
		}
	}
	return w.Conn.Write(b)
}

func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.end && n > 0 { // the answer is sent once everything is done
		_ = w.Close()
		return 0, errCut
	}
	return n, err
}

func claims(statement, _ string) bool { return strings.Contains(statement, "berth.claim(") }

func commits(statement, earlier string) bool {
	return statement == "commit" && strings.Contains(earlier, "name: PlaceStore")
}

// Whatever is cut, and when: everything is done, once, by the worker that began it, and nothing is counted.
func TestConnectionsCut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason  string
		matches func(statement, earlier string) bool
		at      when
	}{
		"claim, not received":        {"the lease is given back, though there is none", claims, before},
		"claim, answer lost":         {"the lease is given back by the fence that it chose", claims, after},
		"outcome, not received":      {"stored again", func(s, _ string) bool { return strings.Contains(s, "name: PlaceStore") }, before},
		"outcome, answer lost":       {"stored again: it was not committed", func(s, _ string) bool { return strings.Contains(s, "name: PlaceStore") }, after},
		"commit, not received":       {"stored again", commits, before},
		"commit, answer lost":        {"stored already", commits, after},
		"heartbeat, not received":    {"the next one counts", func(s, _ string) bool { return strings.Contains(s, "name: WorkerBeat") }, before},
		"heartbeat, answer lost":     {"the next one counts", func(s, _ string) bool { return strings.Contains(s, "name: WorkerBeat") }, after},
		"dispatch, answer lost":      {"a job more does no harm", func(s, e string) bool { return s == "commit" && strings.Contains(e, "name: PlaceDispatch") }, after},
		"any statement, answer lost": {"all at once", func(string, string) bool { return true }, after},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, fake, backends := faked(t)
			w := &wires{}
			log := &counting{}
			f.startWith(options{pool: db.PoolOptions{Dial: w.dial}, log: log.logger()}, backends)
			w.arm(4, c.at, c.matches)
			ids := f.create(50)
			f.allRunning()
			eventually(t, func() bool { return w.done() > 0 }, "it was cut")
			f.none(`SELECT count(*) FROM berth.provisioner_resources WHERE fence IS NOT NULL OR claimed_generation < generation`)
			require.Zero(t, log.count("taken over"), c.reason)
			require.Equal(t, 50, fake.Count(provisionertest.Reconcile), c.reason)
			require.Equal(t, 50, f.count(`SELECT count(*) FROM berth.events WHERE kind = 'RuntimePublished'`), c.reason)
			require.Zero(t, f.count(`SELECT count(*) FROM berth.provisioner_resources WHERE failures > 0 OR lost > 0`))
			f.deleteAll(ids)
			empty(t, fake)
		})
	}
}

// A claim that the server makes only after it was given back, because nobody heard of it.
func TestClaimMadeAfterItWasGivenBack(t *testing.T) {
	t.Parallel()
	o := newOne(t, options{})
	fence := uuid.New()
	o.giveBackUnanswered([]lease{{id: o.id, fence: fence}})
	require.Equal(t, 1, o.count(`SELECT count(*) FROM berth.claim(ARRAY[$1::uuid], ARRAY['a'], ARRAY[$2::uuid], $3, interval '1 minute', interval '6 seconds', true, interval '30 seconds') WHERE NOT held`, o.id, fence, o.ID()))
	eventually(t, func() bool { s := o.stand(o.id); return !s.Leased && s.Waiting }, "it is given back all the same")
}

// All connections of the pool are taken while outcomes and claims wait for one. The heartbeat has its own.
func TestPoolExhausted(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f, fake, backends := faked(t)
	log := &counting{}
	n := f.startWith(options{log: log.logger()}, backends)
	reached, open := make(chan struct{}), make(chan struct{})
	fake.Script(provisionertest.Reconcile, provisionertest.Gate(reached, open, false))
	ids := f.create(1)
	<-reached
	var taken []*pgxpool.Conn
	for range defaults.EnginePool {
		c, err := n.pool.Acquire(ctx)
		require.NoError(t, err)
		taken = append(taken, c)
	}
	close(open)
	ids = append(ids, f.create(20)...)
	var beat time.Time
	f.row(`SELECT alive_until FROM berth.workers`, nil, &beat)
	f.none(`SELECT count(*) FROM berth.workers WHERE alive_until <= $1`, beat)
	require.Equal(t, 21, f.count(`SELECT count(*) FROM berth.deployments WHERE state = 'pending'`))
	for _, c := range taken {
		c.Release()
	}
	f.allRunning()
	require.Zero(t, log.count("taken over"))
	require.Equal(t, 21, fake.Count(provisionertest.Reconcile))
	f.deleteAll(ids)
	empty(t, fake)
}
