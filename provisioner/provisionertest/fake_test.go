package provisionertest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"berth/provisioner"
)

func want(slots string) *provisioner.Resource {
	return &provisioner.Resource{ID: uuid.New(), Type: provisioner.Runtime, Args: json.RawMessage(`{"slots": ` + slots + `}`)}
}

func TestFakeFollowsItsScript(t *testing.T) {
	t.Parallel()

	ctx := t.Context()
	f := NewFake("a")
	r, other := want("2"), want("1")
	boom := errors.New("boom")
	f.Script(Reconcile, Fail(provisioner.ErrUnavailable), Pending("Starting"), FailAfter(boom), Lie(observation{Phase: provisioner.PhaseAbsent}), Panic("ouch"), Normal(), PanicAfter("late"))
	f.ScriptFor(Reconcile, other.ID, Fail(provisioner.ErrInvalid))

	_, err := f.Reconcile(ctx, other)
	require.ErrorIs(t, err, provisioner.ErrInvalid, "its own script goes first")
	_, err = f.Reconcile(ctx, r)
	require.ErrorIs(t, err, provisioner.ErrUnavailable)
	require.False(t, f.World.Exists(r.ID))
	o, err := f.Reconcile(ctx, r)
	require.NoError(t, err)
	require.Equal(t, observation{Phase: provisioner.PhasePending, Reason: "Starting"}, o)
	_, err = f.Reconcile(ctx, r)
	require.ErrorIs(t, err, boom)
	require.True(t, f.World.Exists(r.ID), "done all the same")
	o, err = f.Reconcile(ctx, r)
	require.NoError(t, err)
	require.Equal(t, absent, o)
	require.PanicsWithValue(t, "ouch", func() { _, _ = f.Reconcile(ctx, r) })
	o, err = f.Reconcile(ctx, r)
	require.NoError(t, err)
	require.Equal(t, provisioner.PhaseReady, o.Phase)
	require.PanicsWithValue(t, "late", func() { _, _ = f.Reconcile(ctx, other) })
	require.True(t, f.World.Exists(other.ID))
	require.Empty(t, f.World.Overlaps())

	require.Equal(t, 8, f.Count(Reconcile))
	require.Equal(t, 6, f.CountFor(Reconcile, r.ID))
	require.Equal(t, 0, f.Count(Hibernate))
	require.Equal(t, 6, f.Calls()[6].Number)

	f.Always(Observe, r.ID, Lie(observation{Phase: provisioner.PhaseAbsent}))
	f.Script(Observe, Fail(boom))
	_, err = f.Observe(ctx, []provisioner.Resource{*other})
	require.ErrorIs(t, err, boom)
	seen, err := f.Observe(ctx, []provisioner.Resource{*other, *r})
	require.NoError(t, err)
	require.Equal(t, []observation{{Phase: provisioner.PhaseReady}, absent}, seen)
	f.Always(Observe, r.ID, nil)
	seen, err = f.Observe(ctx, []provisioner.Resource{*r})
	require.NoError(t, err)
	require.Equal(t, provisioner.PhaseReady, seen[0].Phase)

	f.Script(Check, Fail(provisioner.ErrUnavailable))
	_, err = f.Check(ctx)
	require.ErrorIs(t, err, provisioner.ErrUnavailable)
	c, err := f.Check(ctx)
	require.NoError(t, err)
	require.Equal(t, 3, *c.Used)
	require.Nil(t, c.Slots)
}

func TestFakeHangsUntilItsContextEnds(t *testing.T) {
	t.Parallel()

	f := NewFake("a")
	for _, step := range []Step{Hang(), Slow(time.Hour), Gate(nil, nil, false)} {
		why := errors.New("deadline of the call")
		ctx, cancel := context.WithCancelCause(t.Context())
		f.Script(Reconcile, step)
		done := make(chan error, 1)
		begun := f.Count(Reconcile)
		go func() {
			_, err := f.Reconcile(ctx, want("1"))
			done <- err
		}()
		require.NoError(t, f.Await(t.Context(), Reconcile, uuid.Nil, begun+1))
		cancel(why)
		require.ErrorIs(t, <-done, why)
	}
	require.Empty(t, f.World.Things())

	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, f.Await(over, Hibernate, uuid.Nil, 1), context.Canceled)
}

func TestFakeOfAFrozenProcess(t *testing.T) {
	t.Parallel()

	w := NewWorld()
	old, other := &Fake{Name: "a", World: w}, &Fake{Name: "a", World: w}
	r := want("1")
	r.Fence = uuid.New()
	w.SetFence("a", r.ID, r.Fence)
	reached, open := make(chan struct{}), make(chan struct{})
	old.Script(Reconcile, Gate(reached, open, true))
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	late := *r
	go func() {
		_, err := old.Reconcile(ctx, &late)
		done <- err
	}()
	<-reached
	cancel() // which a process that stands still does not hear
	r.Fence = uuid.New()
	w.SetFence("a", r.ID, r.Fence)
	o, err := other.Deprovision(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, provisioner.PhaseAbsent, o.Phase)
	close(open)
	require.ErrorIs(t, <-done, errFenced)
	require.Empty(t, w.Things())
	require.Len(t, w.Overlaps(), 1)
	require.Equal(t, Deprovision, w.Overlaps()[0].Op)
}

func TestFakeAsksTheGuard(t *testing.T) {
	t.Parallel()

	f := NewFake("a")
	lost := errors.New("lease lost")
	r := want("1")
	r.Fence = uuid.New()
	current := r.Fence
	f.World.Guard = func(_ context.Context, name string, id, fence uuid.UUID, write func() error) error {
		if name != "a" || id != r.ID || fence != current {
			return lost
		}
		return write()
	}
	_, err := f.Reconcile(t.Context(), r)
	require.NoError(t, err)
	current = uuid.New()
	_, err = f.Deprovision(t.Context(), r)
	require.ErrorIs(t, err, lost)
	require.True(t, f.World.Exists(r.ID))
}

func TestFakeTellsItsHook(t *testing.T) {
	t.Parallel()

	boom := errors.New("boom")
	var told []Call
	f := NewFake("a", "database")
	f.Hook = func(_ context.Context, c Call) error {
		told = append(told, c)
		if c.Op == Observe || c.Op == Check {
			return boom
		}
		return nil
	}
	r := want("1")
	_, err := f.Hibernate(t.Context(), r)
	require.NoError(t, err)
	_, err = f.Observe(t.Context(), []provisioner.Resource{*r})
	require.ErrorIs(t, err, boom)
	_, err = f.Check(t.Context())
	require.ErrorIs(t, err, boom)
	require.Equal(t, []Call{
		{Op: Hibernate, Provisioner: "a", ID: r.ID, Type: r.Type, Args: r.Args, Number: 1},
		{Op: Observe, Provisioner: "a", Batch: 1, Number: 1},
		{Op: Check, Provisioner: "a", Number: 1},
	}, told)
	require.True(t, f.Info().Supports("database"))
	require.False(t, f.Info().Supports(provisioner.Runtime))
}

func TestFakeRunsOutOfRoom(t *testing.T) {
	t.Parallel()

	f := NewFake("a")
	f.World.SetRoom(3)
	small, big, never := want("2"), want("3"), want("4")
	_, err := f.Reconcile(t.Context(), small)
	require.NoError(t, err)
	_, err = f.Reconcile(t.Context(), big)
	require.ErrorIs(t, err, provisioner.ErrNoCapacity)
	_, err = f.Reconcile(t.Context(), never)
	require.ErrorIs(t, err, provisioner.ErrInvalid)
	require.Equal(t, 2, f.World.Used())
	_, err = f.Deprovision(t.Context(), small)
	require.NoError(t, err)
	o, err := f.Reconcile(t.Context(), big)
	require.NoError(t, err)
	require.Equal(t, provisioner.PhaseReady, o.Phase)
}

func TestFakeWatches(t *testing.T) {
	t.Parallel()

	f := NewFake("a")
	changed := make(chan uuid.UUID)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	r := want("1")
	go func() {
		done <- f.Watch(ctx, func(id uuid.UUID) {
			select {
			case changed <- id:
			case <-ctx.Done():
			}
		})
	}()
	require.Eventually(t, func() bool { // a change before the watch began is not told
		f.World.Put(Thing{Provisioner: "a", ID: r.ID, Part: Disk})
		select {
		case id := <-changed:
			return id == r.ID
		default:
			return false
		}
	}, 10*time.Second, time.Millisecond)
	cancel()
	require.NoError(t, <-done)
}
