package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/db/dbtest"
	"berth/internal/defaults"
	"berth/provisioner"
)

// one is a deployment whose runtime a test drives by hand.
type one struct {
	*fleet
	*Engine
	backend    *scripted
	deployment uuid.UUID
	id         uuid.UUID
}

func newOne(t *testing.T, o options) *one {
	t.Helper()
	b := &scripted{}
	backends := map[string]provisioner.Provisioner{"a": b}
	f := newFleet(t, dbtest.New(t), backends)
	d := f.create(1)[0]
	return &one{f, f.engine(backends, o), b, d, f.runtime(d)}
}

// step has the backend answer once.
func (o *one) step(answer func(context.Context, *provisioner.Resource) (provisioner.Observation, error)) stand {
	o.t.Helper()
	o.backend.reconcile, o.backend.hibernate, o.backend.deprovision = answer, answer, answer
	o.wake(o.id)
	o.drive(o.Engine, o.id)
	return o.stand(o.id)
}

func says(seen provisioner.Observation, err error) func(context.Context, *provisioner.Resource) (provisioner.Observation, error) {
	return func(context.Context, *provisioner.Resource) (provisioner.Observation, error) { return seen, err }
}

func notes(state string, seen provisioner.Observation, err error) func(context.Context, *provisioner.Resource) (provisioner.Observation, error) {
	return func(_ context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
		r.State = json.RawMessage(state)
		return seen, err
	}
}

var (
	ready   = provisioner.Observation{Phase: provisioner.PhaseReady}
	pending = provisioner.Observation{Phase: provisioner.PhasePending}
	unknown = provisioner.Observation{}
)

// What one call of a backend leads to, in the rows.
func TestOneCall(t *testing.T) {
	t.Parallel()
	fresh := stand{Desired: "ready", Phase: "unknown", State: "{}", Config: "{}", HasLook: true}
	like := func(change func(*stand)) stand { s := fresh; change(&s); return s }
	for name, c := range map[string]struct {
		reason string
		answer func(context.Context, *provisioner.Resource) (provisioner.Observation, error)
		want   stand
		state  string
	}{
		"ready":     {"nothing is due", says(ready, nil), like(func(s *stand) { s.Phase, s.Settled, s.HasLook = "ready", true, false }), "running"},
		"pending":   {"looked at again", says(pending, nil), like(func(s *stand) { s.Phase = "pending" }), "pending"},
		"transient": {"a failure", says(unknown, errors.New("boom")), like(func(s *stand) { s.Reason, s.Message, s.Failures = "Failed", "boom", 1 }), "pending"},
		"invalid": {"given up", says(unknown, fmt.Errorf("size: %w", provisioner.ErrInvalid)), like(func(s *stand) {
			s.Reason, s.Message, s.Failures, s.GivenUp, s.HasLook = "Invalid", "size: invalid", 1, true, false
		}), "errored"},
		"no capacity": {"waits", says(unknown, fmt.Errorf("pool: %w", provisioner.ErrNoCapacity)), like(func(s *stand) { s.Reason, s.Message = "NoCapacity", "pool: no capacity" }), "pending"},
		"unavailable": {"not its fault", says(unknown, fmt.Errorf("dial: %w", provisioner.ErrUnavailable)), like(func(s *stand) { s.Reason, s.Message = "BackendUnavailable", "dial: unavailable" }), "pending"},
		"panic": {"an error of this one", func(context.Context, *provisioner.Resource) (provisioner.Observation, error) {
			panic("pass\x00word=hunter22")
		},
			like(func(s *stand) {
				s.Reason, s.Message, s.Failures = "Panic", "the provisioner's code failed: password=***", 1
			}), "pending"},
		"hang": {"bounded", func(ctx context.Context, _ *provisioner.Resource) (provisioner.Observation, error) {
			<-ctx.Done()
			return unknown, ctx.Err()
		},
			like(func(s *stand) {
				s.Reason, s.Message, s.Failures = "Timeout", "no answer in time: 50ms have passed: context deadline exceeded", 1
			}), "pending"},
		"hang, then an answer": {"too late is not wrong", func(ctx context.Context, _ *provisioner.Resource) (provisioner.Observation, error) {
			<-ctx.Done()
			return ready, nil
		},
			like(func(s *stand) { s.Phase, s.Settled, s.HasLook = "ready", true, false }), "running"},
		"state with an error": {"work that was done is not forgotten", notes(`{"password": "x"}`, pending, errors.New("boom")),
			like(func(s *stand) {
				s.Phase, s.State, s.Reason, s.Message, s.Failures = "pending", `{"password": "x"}`, "Failed", "boom", 1
			}), "pending"},
		"resize without room": {"it keeps what it has", says(ready, provisioner.ErrNoCapacity), like(func(s *stand) { s.Phase, s.Reason, s.Message = "ready", "NoCapacity", "no capacity" }), "updating"},
		"list as state": {"refused and explained", notes(`[1]`, ready, nil), like(func(s *stand) {
			s.Reason, s.Message, s.Failures = "Unstorable", "the state that the provisioner returned can not be stored: it is not one JSON object", 1
		}), "pending"},
		"NUL in the state": {"refused and explained", notes(`{"a": "\u0000"}`, ready, nil), like(func(s *stand) {
			s.Reason, s.Message, s.Failures = "Unstorable", "the state that the provisioner returned can not be stored: it holds a NUL character", 1
		}), "pending"},
		"oversize": {"refused and explained", notes(`{"a": "`+strings.Repeat("x", defaults.MaxNotes)+`"}`, ready, nil), like(func(s *stand) {
			s.Reason, s.Message, s.Failures = "Unstorable", "the state that the provisioner returned can not be stored: 1048585 bytes are more than 1048576", 1
		}), "pending"},
		"hostile text": {"stored as it can be", says(provisioner.Observation{Phase: provisioner.PhasePending, Reason: "no\x00 word", Message: "a\x00b\xff" + strings.Repeat("y", 1<<20)}, nil),
			like(func(s *stand) {
				s.Phase, s.Reason, s.Message = "pending", "noword", "ab\uFFFD"+strings.Repeat("y", defaults.MaxMessage-5)
			}), "pending"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOne(t, options{set: func(e *Engine) { e.callTimeout = 50 * time.Millisecond }})
			if diff := cmp.Diff(c.want, o.step(c.answer)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
			require.Equal(t, c.state, o.state(o.deployment), c.reason)
		})
	}
}

// What only Postgres refuses is found out in the commit, and does not wait until the lease ends.
func TestUnstorableToPostgres(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ state, want string }{
		"half a surrogate": {`{"a": "\ud800"}`, "what the provisioner returned can not be stored: invalid input syntax for type json"},
		"a huge number":    {`{"a": 1e999999}`, "what the provisioner returned can not be stored: value overflows numeric format"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOne(t, options{})
			s := o.step(notes(c.state, ready, nil))
			require.Empty(t, cmp.Diff(stand{Desired: "ready", Phase: "unknown", State: "{}", Config: "{}", HasLook: true, Failures: 1, Reason: "Unstorable", Message: c.want}, s))
		})
	}
	// One that is as deep as Go reads it is stored or refused, but not left lying.
	o := newOne(t, options{})
	s := o.step(notes(strings.Repeat(`{"a":`, 9000)+`1`+strings.Repeat(`}`, 9000), ready, nil))
	require.False(t, s.Leased)
}

// A wait for room has no deadline; everything else has.
func TestWaitingForRoomHasNoDeadline(t *testing.T) {
	t.Parallel()
	o := newOne(t, options{})
	require.Equal(t, 1, o.count(`SELECT count(*) FROM berth.provisioner_resources WHERE deadline_at > now()`), "it is set with the intent")
	o.step(says(unknown, provisioner.ErrNoCapacity))
	require.Equal(t, 0, o.count(`SELECT count(deadline_at) FROM berth.provisioner_resources`))
	o.step(says(pending, nil))
	require.Equal(t, 1, o.count(`SELECT count(*) FROM berth.provisioner_resources WHERE deadline_at > now()`), "from now on it is on its way")
	o.step(says(ready, nil))
	require.Equal(t, 0, o.count(`SELECT count(deadline_at) FROM berth.provisioner_resources`))
}

// What could not be met at all and is only waited for now, as under another configuration, is no error any more.
func TestGivenUpThatWaitsIsNotGivenUp(t *testing.T) {
	t.Parallel()
	o := newOne(t, options{})
	require.True(t, o.step(says(unknown, provisioner.ErrInvalid)).GivenUp)
	require.Equal(t, "errored", o.state(o.deployment))
	require.True(t, o.step(says(pending, errors.New("boom"))).GivenUp, "not met yet")
	require.False(t, o.step(says(pending, provisioner.ErrNoCapacity)).GivenUp)
	require.Equal(t, "pending", o.state(o.deployment))
}

// A value that was noted before its first use: the next step is taken at once. The same state in other words is no reason to,
// or a backend that encodes it anew each time would be called in a loop.
func TestStateChangedIsCalledAgainAtOnce(t *testing.T) {
	t.Parallel()
	o := newOne(t, options{})
	jobs := func() int { return o.count(`SELECT count(*) FROM berth.river_job`) }
	before := jobs()
	require.True(t, o.step(notes(`{"a":1,"b":[true]}`, pending, nil)).Waiting)
	require.Equal(t, before+1, jobs(), "and a job leads there")
	require.False(t, o.step(notes(`{ "b": [ true ], "a": 1.0 }`, pending, nil)).Waiting, "the same state")
	require.True(t, o.step(notes(`{"a":2}`, pending, nil)).Waiting)
	require.False(t, o.step(notes(`{"a":3}`, provisioner.Observation{Phase: provisioner.PhasePending, After: time.Minute}, nil)).Waiting, "it asked for time")
	require.False(t, o.step(notes(`{"a":4}`, pending, errors.New("boom"))).Waiting, "a failure backs off")
	o.exec(`UPDATE berth.provisioner_resources SET deadline_at = now()`)
	require.False(t, o.step(notes(`{"a":4.5}`, pending, nil)).Waiting, "past its deadline it is not believed any more")
	require.False(t, o.step(notes(`{"a":5}`, ready, nil)).Waiting)
	require.Equal(t, `{"a": 5}`, o.stand(o.id).State)
}

// What could not be learned overwrites nothing that is known.
func TestUnknownOverwritesNothing(t *testing.T) {
	t.Parallel()
	o := newOne(t, options{})
	o.step(says(ready, nil))
	require.Equal(t, "running", o.state(o.deployment))
	for _, answer := range []provisioner.Observation{unknown, {Phase: "nonsense"}} {
		s := o.step(says(answer, provisioner.ErrUnavailable))
		require.Equal(t, "ready", s.Phase)
		require.Equal(t, "BackendUnavailable", s.Reason)
		require.Equal(t, "running", o.state(o.deployment))
	}
}

// What was never made is stopped by leaving it so.
func TestHibernateOfTheNeverMade(t *testing.T) {
	t.Parallel()
	o := newOne(t, options{})
	o.tx(func(tx pgx.Tx) error { return o.admin.Stop(context.Background(), tx, o.deployment) })
	s := o.step(says(provisioner.Observation{Phase: provisioner.PhaseAbsent}, nil))
	require.Equal(t, "hibernated", s.Phase)
	require.True(t, s.Settled)
	require.Equal(t, "stopped", o.state(o.deployment))
}

// A delete is not held up by what can not be stored: nothing of it is to be.
func TestGoneWithNotesThatCanNotBeStored(t *testing.T) {
	t.Parallel()
	o := newOne(t, options{})
	o.tx(func(tx pgx.Tx) error { return o.admin.Delete(context.Background(), tx, o.deployment) })
	o.backend.deprovision = notes(`[`, provisioner.Observation{Phase: provisioner.PhaseAbsent}, nil)
	o.drive(o.Engine, o.id)
	require.Equal(t, 0, o.count(`SELECT (SELECT count(*) FROM berth.deployments) + (SELECT count(*) FROM berth.provisioner_resources)`))
}

// A run that is cut off keeps what the backend noted, and counts nothing.
func TestCutOffRunKeepsItsNotes(t *testing.T) {
	t.Parallel()
	o := newOne(t, options{})
	ctx, cancel := context.WithCancel(context.Background())
	o.backend.reconcile = func(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
		r.State = json.RawMessage(`{"password": "x"}`)
		cancel()
		return pending, context.Cause(ctx)
	}
	require.NoError(t, o.Drive(ctx, o.id, "a"))
	var s stand
	eventually(t, func() bool { s = o.stand(o.id); return !s.Leased }, "the lease is given back")
	want := stand{Desired: "ready", Phase: "unknown", State: `{"password": "x"}`, Config: "{}", Waiting: true, HasLook: true}
	require.Empty(t, cmp.Diff(want, s))
	// One that met its end in time is stored all the same.
	ctx, cancel = context.WithCancel(context.Background())
	o.backend.reconcile = func(context.Context, *provisioner.Resource) (provisioner.Observation, error) {
		cancel()
		return ready, nil
	}
	require.NoError(t, o.Drive(ctx, o.id, "a"))
	require.Equal(t, "running", o.state(o.deployment))
}
