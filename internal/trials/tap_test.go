package trials

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"strings"
	"sync"
)

// dial makes connections with a tap.
func (h *holds) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &tap{Conn: c, holds: h, out: frames{untyped: true}, prepared: map[string]string{}}, nil
}

// A tap reads along on a connection to Postgres, in the clear, to tell which statement is on its way.
type tap struct {
	net.Conn
	holds *holds

	mu       sync.Mutex
	out, in  frames
	prepared map[string]string // texts by the names of the statements
	open     bool              // a transaction is
	ran      []string          // since it began
	waiting  []step            // sent and not answered
}

// A step is one statement, or the COMMIT of several.
type step struct {
	text   string
	commit bool
}

// Write sends, and stands still around it if that is asked for.
func (t *tap) Write(b []byte) (int, error) {
	t.mu.Lock()
	var steps []step
	t.out.feed(b, func(kind byte, body []byte) {
		if s, ok := t.step(kind, body); ok {
			steps = append(steps, s)
		}
	})
	t.waiting = append(t.waiting, steps...)
	t.mu.Unlock()
	for _, s := range steps {
		t.holds.pass(before, s.text, s.commit)
	}
	n, err := t.Conn.Write(b)
	for _, s := range steps {
		t.holds.pass(sent, s.text, s.commit)
	}
	return n, err
}

// Read receives; a whole answer is kept back if that is asked for.
func (t *tap) Read(b []byte) (int, error) {
	n, err := t.Conn.Read(b)
	t.mu.Lock()
	var steps []step
	t.in.feed(b[:n], func(kind byte, _ []byte) {
		if kind == 'Z' { // ready for the next one: what was sent is done, and committed unless a transaction is open
			steps = append(steps, t.waiting...)
			t.waiting = nil
		}
	})
	t.mu.Unlock()
	for _, s := range steps {
		t.holds.pass(answered, s.text, s.commit)
	}
	return n, err
}

// step understands a message of ours.
func (t *tap) step(kind byte, body []byte) (step, bool) {
	switch kind {
	case 'P': // parse
		name, rest, _ := bytes.Cut(body, []byte{0})
		text, _, _ := bytes.Cut(rest, []byte{0})
		t.prepared[string(name)] = string(text)
	case 'B': // bind, of which an execution follows
		_, rest, _ := bytes.Cut(body, []byte{0})
		name, _, _ := bytes.Cut(rest, []byte{0})
		return t.run(t.prepared[string(name)]), true
	case 'Q': // a simple query
		text := string(bytes.TrimRight(body, "\x00"))
		switch word := strings.ToLower(text); {
		case strings.HasPrefix(word, "begin"):
			t.open, t.ran = true, nil
		case strings.HasPrefix(word, "rollback"):
			t.open, t.ran = false, nil
		case strings.HasPrefix(word, "commit"):
			s := step{strings.Join(t.ran, "\n"), true}
			t.open, t.ran = false, nil
			return s, true
		default:
			return t.run(text), true
		}
	}
	return step{}, false
}

func (t *tap) run(text string) step {
	if t.open {
		t.ran = append(t.ran, text)
	}
	return step{text: text}
}

// frames cuts a stream into messages.
type frames struct {
	untyped bool // the first message of a client has no kind
	rest    []byte
}

func (f *frames) feed(b []byte, each func(kind byte, body []byte)) {
	f.rest = append(f.rest, b...)
	for {
		head := 1
		if f.untyped {
			head = 0
		}
		if len(f.rest) < head+4 {
			return
		}
		end := head + int(binary.BigEndian.Uint32(f.rest[head:]))
		if len(f.rest) < end {
			return
		}
		if !f.untyped {
			each(f.rest[0], f.rest[head+4:end])
		}
		f.untyped = false
		f.rest = f.rest[end:]
	}
}
