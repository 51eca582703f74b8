package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"berth/internal/defaults"
)

// newPings makes a client that asks runtimes; nil is a transport of its own, which goes straight to them, whatever proxy the environment
// names.
func newPings(via http.RoundTripper) *http.Client {
	if via == nil {
		via = &http.Transport{
			MaxIdleConnsPerHost: 1, IdleConnTimeout: defaults.PingIdle, ResponseHeaderTimeout: defaults.PingTimeout,
			TLSHandshakeTimeout: defaults.PingTimeout, MaxResponseHeaderBytes: 64 << 10, DisableCompression: true,
		}
	}
	return &http.Client{
		Transport: via, Timeout: defaults.PingTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// ping asks the runtime at a host whether it serves. The error says how it does not.
func (k *Kubernetes) ping(ctx context.Context, host string) error {
	if k.spec.pingPath == "" {
		return nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, host+k.spec.pingPath, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", host, err)
	}
	answer, err := k.pings.Do(request)
	if err != nil {
		var bare *url.Error
		if errors.As(err, &bare) {
			err = bare.Err
		}
		return fmt.Errorf("%s: %w", host, err)
	}
	_, _ = io.CopyN(io.Discard, answer.Body, 1<<10) // so that the connection can be used again
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s answered %d", host, k.spec.pingPath, answer.StatusCode)
	}
	return nil
}
