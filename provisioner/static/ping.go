package static

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"berth/internal/defaults"
)

const pingPath = "/v1/ping"

// errPingPanic: the code of the transport failed.
var errPingPanic = errors.New("the ping broke off")

// A pinger asks runtimes whether they serve. Whoever asks one host while a question to it is under way waits for the next
// question, together with all others: an answer is never older than the question, and a host is never asked twice at once.
type pinger struct {
	client  *http.Client
	timeout time.Duration

	mu    sync.Mutex
	next  map[string]*flight // not sent yet
	busy  map[string]bool    // a question is under way
	quit  context.Context    //nolint:containedctx // ends the questions, which belong to nobody's call
	end   context.CancelFunc
	under sync.WaitGroup
}

// A flight is one question. report is told how it went, by whoever sends it.
type flight struct {
	done chan struct{}
	err  error
}

func newPinger(transport http.RoundTripper, timeout time.Duration) *pinger {
	quit, end := context.WithCancel(context.Background())
	return &pinger{
		client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		timeout: timeout, next: map[string]*flight{}, busy: map[string]bool{}, quit: quit, end: end,
	}
}

// transport is a transport of a pool's own: it goes straight to the runtime, whatever proxy the environment names.
func transport() *http.Transport {
	return &http.Transport{
		MaxIdleConnsPerHost:    1,
		IdleConnTimeout:        defaults.PingIdle,
		ResponseHeaderTimeout:  defaults.PingTimeout,
		TLSHandshakeTimeout:    defaults.PingTimeout,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true,
	}
}

// ping asks a runtime by its URL. nil means that it serves.
func (p *pinger) ping(ctx context.Context, url string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p.mu.Lock()
	f := p.next[url]
	if f == nil {
		f = &flight{done: make(chan struct{})}
		p.next[url] = f
	}
	if !p.busy[url] {
		p.busy[url] = true
		p.under.Go(func() { p.fly(url) })
	}
	p.mu.Unlock()
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fly asks for as long as somebody wants to know.
func (p *pinger) fly(url string) {
	for {
		p.mu.Lock()
		f := p.next[url]
		delete(p.next, url)
		if f == nil {
			delete(p.busy, url)
		}
		p.mu.Unlock()
		if f == nil {
			return
		}
		f.err = p.ask(url)
		close(f.done)
	}
}

func (p *pinger) ask(url string) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%s: %w: %v", url, errPingPanic, v)
		}
	}()
	slow := fmt.Errorf("no answer within %s", p.timeout)
	ctx, cancel := context.WithTimeoutCause(p.quit, p.timeout, slow)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base(url)+pingPath, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	answer, err := p.client.Do(request)
	if err != nil {
		if errors.Is(context.Cause(ctx), slow) {
			return fmt.Errorf("%s: %w", url, slow)
		}
		return fmt.Errorf("%s: %w", url, bare(err))
	}
	_, _ = io.CopyN(io.Discard, answer.Body, 1<<10) // so that the connection can be used again; what it says does not matter
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: ping answered %d", url, answer.StatusCode)
	}
	return nil
}

// bare takes the request off an error: the host is named before it.
func bare(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// close ends what is under way and waits for it.
func (p *pinger) close() {
	p.end()
	p.under.Wait()
	p.client.CloseIdleConnections()
}
