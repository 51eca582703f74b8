// Command worker is Berth's worker and the command line around it: flags, environment, wiring and what people read. What it does
// stands in the packages that it calls. One file for each subcommand.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// Whoever read what is written to stderr may be gone. Unless it is asked for, that signal ends the process.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signalled, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(context.Background())
	context.AfterFunc(signalled, func() {
		stop() // a second signal kills at once, also one that comes as soon as the first is noticed
		cancel()
	})

	if err := run(ctx, os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr); err != nil {
		fmt.Fprint(os.Stderr, errorLines(err))
		os.Exit(exitStatus(err))
	}
}
