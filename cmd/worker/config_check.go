package main

import (
	"context"
	"fmt"
)

type configCheck struct{ setFlags }

// Run checks the set. It connects to nothing. Everything that is wrong is told in one go; what is hardly meant is told beside the set.
func (c *configCheck) Run(_ context.Context, a *app) error {
	s, err := a.configured(c.setFlags).parse(nil)
	if err != nil {
		return err
	}
	for _, w := range s.Warnings() {
		a.say("worker: warning: %s", w)
	}
	if _, err := fmt.Fprintf(a.stdout, "%s\n", s.Masked()); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return s.Close()
}
