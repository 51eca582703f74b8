package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"berth/internal/defaults"
	"berth/internal/health"
)

type healthcheck struct {
	URL string `name:"url" placeholder:"URL" default:"http://${listen}/readyz" help:"Where the worker answers. http://${listen}/readyz if not given."`
}

// Validate refuses what is no address.
func (c *healthcheck) Validate() error {
	if u, err := url.Parse(c.URL); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return fmt.Errorf("--url: it is no address: write it as http://HOST:PORT/readyz")
	}
	return nil
}

// errNotReady is why a worker that answers is not ready. The text around it says which checks failed.
var errNotReady = errors.New("the worker is not ready")

// Run asks the worker of this machine whether it is ready. It needs no shell and no other program, so an image needs none.
func (c *healthcheck) Run(ctx context.Context, a *app) error {
	ctx, cancel := context.WithTimeoutCause(ctx, defaults.ProbeTimeout, fmt.Errorf("no answer within %v", defaults.ProbeTimeout))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL, nil)
	if err != nil {
		return errors.New("healthcheck: the address can not be asked: see worker run --listen")
	}
	transport := &http.Transport{DisableKeepAlives: true} // no proxy: it is this machine that is asked
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(request)
	if err != nil {
		if why := context.Cause(ctx); why != nil {
			return fmt.Errorf("healthcheck: %w: see that worker run is up, and its --listen", why)
		}
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return fmt.Errorf("healthcheck: %w: see that worker run is up, and its --listen", err)
	}
	defer answer.Body.Close()
	const most = 64 << 10
	text, err := io.ReadAll(io.LimitReader(answer.Body, most))
	if err != nil {
		return fmt.Errorf("healthcheck: read the answer: %w", err)
	}
	var r health.Readiness
	err = json.Unmarshal(text, &r)
	if err == nil && answer.StatusCode == http.StatusOK && r.Ready {
		fmt.Fprintln(a.stdout, "ready")
		return nil
	}
	if err != nil || len(r.Failed) == 0 { // somebody else answers there
		return fmt.Errorf("healthcheck: the answer is %s: see that --url is where worker run listens, /readyz included", answer.Status)
	}
	var why []string
	for _, f := range r.Failed {
		why = append(why, f.Check+": "+f.Reason)
	}
	return fmt.Errorf("healthcheck: %w: %s", errNotReady, strings.Join(why, "; "))
}
