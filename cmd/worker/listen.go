package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"syscall"
	"time"

	"berth/internal/defaults"
	"berth/internal/health"
)

// listenFlag says where a worker answers over HTTP.
type listenFlag struct {
	Listen string `name:"listen" placeholder:"ADDR" default:"${listen}" help:"Where /livez, /readyz and /metrics are served, to whoever can connect. ${listen} if not given; nowhere if empty."`
}

// Validate refuses what is no address.
func (f listenFlag) Validate() error {
	if f.Listen == "" {
		return nil
	}
	const form = "use HOST:PORT, such as " + defaults.Listen + ", :8080 for every interface, or '' for nowhere"
	_, port, err := net.SplitHostPort(f.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %q is no address: %s", f.Listen, form)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("--listen: %q has no port from 0 to 65535: %s", f.Listen, form)
	}
	return nil
}

// serve begins to answer, or returns nil if that is not wanted. Nothing else has begun by then, so a port that is taken changes nothing.
func (f listenFlag) serve(ctx context.Context, logger *slog.Logger) (*health.Server, error) {
	if f.Listen == "" {
		return nil, nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", f.Listen)
	if err != nil {
		return nil, &listenError{f.Listen, err}
	}
	s := health.New(programVersion(), time.Now, logger)
	s.Serve(l)
	logger.Info("health and metrics are served", slog.String("address", l.Addr().String()))
	return s, nil
}

// listenError says why an address can not be listened on, and what else to give.
type listenError struct {
	address string
	err     error
}

// Error returns the text.
func (e *listenError) Error() string {
	why, remedy := "it can not be listened on", "give an address of this machine, or --listen '' for none"
	var lookup *net.DNSError
	switch {
	case errors.Is(e.err, syscall.EADDRINUSE):
		why, remedy = "another process listens there, another worker perhaps", "give another port, or --listen '' for none"
	case errors.Is(e.err, syscall.EACCES):
		why, remedy = "this user may not listen on that port", "give a port above 1023, or --listen '' for none"
	case errors.Is(e.err, syscall.EADDRNOTAVAIL):
		why = "it is no address of this machine"
	case errors.As(e.err, &lookup):
		why = "there is no such host"
	}
	return fmt.Sprintf("--listen %s: %s: %s", e.address, why, remedy)
}

// Unwrap returns what went wrong.
func (e *listenError) Unwrap() error { return e.err }

// endServing lets answers that are under way finish.
func endServing(ctx context.Context, s *health.Server) error {
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), defaults.ShutdownHard)
	defer cancel()
	return s.Close(ctx)
}
