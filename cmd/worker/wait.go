package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"berth/internal/defaults"
	"berth/lifecycle"
)

// waiting is the flag of the commands that change a deployment.
type waiting struct {
	Wait time.Duration `name:"wait" placeholder:"DURATION" help:"Wait so long at most until it is done, such as 2m. Returns at once if not given."`
}

// Validate refuses a time in which nothing could happen.
func (w waiting) Validate() error {
	if w.Wait == 0 {
		return nil
	}
	return positive("--wait", w.Wait)
}

func positive(flag string, d time.Duration) error {
	if d > 0 {
		return nil
	}
	return fmt.Errorf("%s: %v is no time to wait: write a duration such as 30s or 5m", flag, d)
}

// change changes one deployment in a transaction, waits for what it now wants if that was asked for, and shows it: also when
// the waiting was in vain, for then it is needed most.
func (ad *admin) change(ctx context.Context, a *app, id uuid.UUID, out output, w waiting, f func(pgx.Tx) error) error {
	var d lifecycle.Deployment
	err := ad.tx(ctx, func(tx pgx.Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		var err error
		d, err = ad.Get(ctx, tx, id)
		return err
	})
	if err != nil {
		return err
	}
	var waited error
	if w.Wait > 0 {
		var seen lifecycle.Deployment
		if seen, waited = ad.await(ctx, id, d.DesiredState, w.Wait); seen.ID == id {
			d = seen
		}
	}
	if err := out.write(a.stdout, d, deploymentText(d)); err != nil {
		return errors.Join(waited, err)
	}
	return waited
}

// await looks at a deployment until it is in the state. It gives up when it is errored, deleted, or out of time, and says why.
// What was seen last comes back too; nothing if there is none.
func (ad *admin) await(ctx context.Context, id uuid.UUID, state string, most time.Duration) (last lifecycle.Deployment, err error) {
	deadline := time.NewTimer(most)
	defer deadline.Stop()
	tick := time.NewTicker(defaults.WaitPoll)
	defer tick.Stop()
	for {
		d, err := ad.Get(ctx, ad.pool, id)
		switch {
		case errors.Is(err, lifecycle.ErrNotFound):
			return last, ad.gone(ctx, id, state, err)
		case err != nil:
			return last, err
		case d.State == state:
			return d, nil
		case d.State == lifecycle.Errored:
			return d, fmt.Errorf("deployment %s: it is errored%s: see worker deployment show", id, because(d))
		}
		last = d
		select {
		case <-ctx.Done():
			return last, ctx.Err()
		case <-deadline.C:
			return last, fmt.Errorf("deployment %s: after %v it is still %s%s: see worker deployment show", id, most, d.State, because(d))
		case <-tick.C:
		}
	}
}

// gone says what it means that a deployment is not there: that it was deleted is what some wait for, and never was is a mistake.
func (ad *admin) gone(ctx context.Context, id uuid.UUID, state string, missing error) error {
	events, err := ad.Events(ctx, ad.pool, id)
	switch {
	case err != nil:
		return err
	case !slices.ContainsFunc(events, func(h lifecycle.Happening) bool { return h.Kind == lifecycle.DeploymentDeleted }):
		return missing
	case state == lifecycle.Deleted:
		return nil
	}
	return fmt.Errorf("deployment %s: it was deleted and will never be %s: create a new one", id, state)
}

// because is why a deployment is in its state, to be put after it: its reason, or that of a resource that gives one.
func because(d lifecycle.Deployment) string {
	reason, message := d.Reason, d.Message
	for _, r := range d.Resources {
		if reason != "" || message != "" {
			break
		}
		reason, message = r.Reason, r.Message
	}
	var b strings.Builder
	for _, part := range []string{reason, message} {
		if part != "" {
			b.WriteString(": " + part)
		}
	}
	return b.String()
}

// at is where a deployment runs, to be put after its state.
func at(d lifecycle.Deployment) string {
	if d.RuntimeHost == "" {
		return ""
	}
	return " at " + d.RuntimeHost
}
