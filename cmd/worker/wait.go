package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"berth/db/dbsqlc"
	"berth/internal/defaults"
	"berth/internal/telemetry"
	"berth/internal/terminal"
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
		if seen, waited = ad.await(ctx, a, id, d.DesiredState, w.Wait); seen.ID == id {
			d = seen
		}
	}
	if err := ad.showDeployment(context.WithoutCancel(ctx), a, out, d); err != nil {
		return errors.Join(waited, err)
	}
	return waited
}

// await looks at a deployment until it is in the state. It gives up when it is errored, deleted, or out of time, and says why. A
// database that went away may come back in time. What was seen last comes back too; nothing if there is none.
func (ad *admin) await(ctx context.Context, a *app, id uuid.UUID, state string, most time.Duration) (last lifecycle.Deployment, err error) {
	ctx = telemetry.Untraced(ctx)
	deadline := time.NewTimer(most)
	defer deadline.Stop()
	tick := time.NewTicker(defaults.WaitPoll)
	defer tick.Stop()
	tell := a.progress()
	for {
		d, err := ad.Get(ctx, ad.pool, id)
		if errors.Is(err, lifecycle.ErrNotFound) {
			if err = ad.gone(ctx, id, state, err); err == nil {
				return last, nil
			}
		}
		switch {
		case disconnected(err):
		case err != nil:
			return last, err
		case d.State == state:
			return d, nil
		case d.State == lifecycle.Errored:
			return d, fmt.Errorf("deployment %s: it is errored%s: see worker deployment show", id, because(d))
		default:
			last = d
			tell(d)
		}
		select {
		case <-ctx.Done():
			return last, ctx.Err()
		case <-deadline.C:
			if err != nil {
				return last, fmt.Errorf("deployment %s: after %v the database is not there: %w", id, most, err)
			}
			return last, fmt.Errorf("deployment %s: after %v it is still %s%s", id, most, d.State, ad.lateness(ctx, d))
		case <-tick.C:
		}
	}
}

// progress tells a person at a terminal each change of a deployment that is waited for. Elsewhere, only what comes of it is told.
func (a *app) progress() func(lifecycle.Deployment) {
	if !terminal.IsTerminal(a.stderr) {
		return func(lifecycle.Deployment) {}
	}
	begun, told := time.Now(), ""
	return func(d lifecycle.Deployment) {
		if now := d.State + because(d); now != told {
			told = now
			a.say("%v: %s", time.Since(begun).Round(100*time.Millisecond), now)
		}
	}
}

// disconnected reports whether there was no server to answer. One that restarts says so to whom it lets go and to whom comes early.
func disconnected(err error) bool {
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		return strings.HasPrefix(answer.Code, "57P")
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) ||
		errors.Is(err, pgconn.ErrConnClosed)
}

// lateness is why a deployment is not yet as it should be, and what to do: where nobody is there to say why, that.
func (ad *admin) lateness(ctx context.Context, d lifecycle.Deployment) string {
	now := ad.provisionersNow(ctx)
	for _, r := range d.Resources {
		if m := now.idle(r.Provisioner); m.words != "" && r.ObservedGeneration < r.Generation {
			return because(d) + ": " + m.words + ": " + m.remedy
		}
	}
	return because(d) + ": see worker deployment show"
}

// workers counts the live workers that have each provisioner.
func (ad *admin) workers(ctx context.Context) (map[string]int64, error) {
	rows, err := dbsqlc.New().WorkerCounts(ctx, ad.pool)
	if err != nil {
		return nil, fmt.Errorf("count workers: %w", err)
	}
	live := map[string]int64{}
	for _, r := range rows {
		live[r.Provisioner] = r.Workers
	}
	return live, nil
}

// gone says what it means that a deployment is not there: that it was deleted is what some wait for, and never was is a mistake.
func (ad *admin) gone(ctx context.Context, id uuid.UUID, state string, missing error) error {
	deleted, err := ad.WasDeleted(ctx, ad.pool, id)
	switch {
	case err != nil:
		return err
	case !deleted:
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
