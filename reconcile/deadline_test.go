package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/db/dbtest"
	"berth/lifecycle"
	"berth/provisioner"
)

// The deadline is set with the intent, before the first call, so that it passes whatever becomes of that: one that returns an
// error, panics, runs into its timeout each time, or takes its worker with it.
func TestDeadlineWhateverTheFirstStepDoes(t *testing.T) {
	t.Parallel()
	const timeout = 400 * time.Millisecond
	for name, c := range map[string]struct {
		reason  string
		answer  func(context.Context, *provisioner.Resource) (provisioner.Observation, error)
		healed  bool // recovers by itself, without anybody asking
		because string
	}{
		"error": {"transient", says(unknown, errors.New("boom")), true, "Failed"},
		"panic": {"of the backend", func(context.Context, *provisioner.Resource) (provisioner.Observation, error) { panic("boom") }, true, "Panic"},
		"hang": {"each time", func(ctx context.Context, _ *provisioner.Resource) (provisioner.Observation, error) {
			<-ctx.Done()
			return unknown, ctx.Err()
		}, true, "Timeout"},
		"silence":    {"the backend's fault is shown too", says(unknown, provisioner.ErrUnavailable), true, "BackendUnavailable"},
		"for ever":   {"pending", says(pending, nil), false, ""}, // looked at in ten seconds
		"no look":    {"the backend wants to be left alone", says(provisioner.Observation{Phase: provisioner.PhasePending, After: time.Hour}, nil), false, ""},
		"dead":       {"the worker died in the first step", nil, false, ""},
		"nobody yet": {"no worker took it up", nil, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var healthy atomic.Bool
			b := &scripted{info: provisioner.Info{Timeout: timeout}, reconcile: func(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
				if healthy.Load() {
					return ready, nil
				}
				return c.answer(ctx, r)
			}}
			backends := map[string]provisioner.Provisioner{"a": b}
			f := newFleet(t, dbtest.New(t), backends)
			d := f.create(1)[0]
			var left time.Duration
			f.row(`SELECT deadline_at - created_at FROM berth.provisioner_resources`, nil, &left)
			require.GreaterOrEqual(t, left, timeout)
			require.Less(t, left, time.Minute, "not the default")
			switch {
			case name == "dead":
				f.claimFor(uuid.New(), f.runtime(d))
				f.engine(backends, options{})
			case c.answer == nil:
				f.engine(backends, options{})
			default:
				f.startWith(options{set: func(e *Engine) { e.callTimeout = 50 * time.Millisecond }}, backends)
			}
			f.none(`SELECT count(*) FROM berth.deployments WHERE state <> 'errored'`)
			require.Equal(t, []string{lifecycle.DeploymentCreated, lifecycle.StateChanged + " errored"}, f.events(d), "%s: once", c.reason)
			var late time.Duration
			f.row(`SELECT e.at - p.deadline_at FROM berth.events e, berth.provisioner_resources p WHERE e.kind = 'StateChanged'`, nil, &late)
			require.Greater(t, late, -timeout/2, "%s: not before the deadline; an event bears the time at which its transaction began", c.reason)
			if c.because != "" {
				require.Equal(t, c.because, f.stand(f.runtime(d)).Reason, "and it is said why")
			}
			if c.healed {
				healthy.Store(true)
				f.allRunning()
				require.Zero(t, f.count(`SELECT count(*) FROM berth.provisioner_resources WHERE failures > 0 OR failing_since IS NOT NULL OR deadline_at IS NOT NULL`))
			}
		})
	}
}

// A full pool is no error, however long it lasts.
func TestNoDeadlineWhileThereIsNoRoom(t *testing.T) {
	t.Parallel()
	calls := make(chan struct{}, 100)
	b := &scripted{info: provisioner.Info{Timeout: 300 * time.Millisecond}, reconcile: func(context.Context, *provisioner.Resource) (provisioner.Observation, error) {
		calls <- struct{}{}
		return unknown, provisioner.ErrNoCapacity
	}}
	backends := map[string]provisioner.Provisioner{"a": b}
	f := newFleet(t, dbtest.New(t), backends)
	d := f.create(1)[0]
	n := f.start(backends)
	<-calls
	f.none(`SELECT count(*) FROM berth.provisioner_resources WHERE reason <> 'NoCapacity'`)
	f.none(`SELECT count(*) FROM berth.provisioner_resources WHERE created_at > now() - interval '700 milliseconds'`)
	require.NoError(t, n.Dispatch(context.Background()))
	require.Equal(t, "pending", f.state(d))
	s := f.stand(f.runtime(d))
	require.Zero(t, s.Failures)
	require.Equal(t, "no capacity", s.Message)
}

// What can never work is tried again when somebody asks for something else, asks again, or a worker starts with what may be
// another configuration.
func TestGivenUpIsTriedAgain(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, again := range map[string]func(f *fleet, d uuid.UUID, restart func()){
		"start": func(f *fleet, d uuid.UUID, _ func()) {
			f.tx(func(tx pgx.Tx) error { return f.admin.Start(ctx, tx, d) })
		},
		"update": func(f *fleet, d uuid.UUID, _ func()) {
			f.tx(func(tx pgx.Tx) error { return f.admin.Update(ctx, tx, lifecycle.Change{Slots: 2}, d) })
		},
		"restart": func(f *fleet, d uuid.UUID, _ func()) {
			f.tx(func(tx pgx.Tx) error { return f.admin.Restart(ctx, tx, d) })
		},
		"worker": func(_ *fleet, _ uuid.UUID, restart func()) { restart() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var possible atomic.Bool
			var calls atomic.Int32
			b := &scripted{reconcile: func(context.Context, *provisioner.Resource) (provisioner.Observation, error) {
				calls.Add(1)
				if !possible.Load() {
					return unknown, fmt.Errorf("slots: %w", provisioner.ErrInvalid)
				}
				return ready, nil
			}}
			backends := map[string]provisioner.Provisioner{"a": b}
			f := newFleet(t, dbtest.New(t), backends)
			n := f.start(backends)
			d := f.create(1)[0]
			f.none(`SELECT count(*) FROM berth.deployments WHERE state <> 'errored'`)
			require.False(t, f.stand(f.runtime(d)).HasLook, "it is not looked at by itself")
			require.Equal(t, int32(1), calls.Load())
			possible.Store(true)
			again(f, d, func() { n.stop(); f.start(backends) })
			f.allRunning()
			require.Equal(t, int32(2), calls.Load())
		})
	}
}
