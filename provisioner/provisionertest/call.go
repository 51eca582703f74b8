package provisionertest

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"berth/provisioner"
)

// Op names a method of a provisioner.
type Op string

// The methods that can be scripted and counted.
const (
	Reconcile   Op = "Reconcile"
	Hibernate   Op = "Hibernate"
	Deprovision Op = "Deprovision"
	Observe     Op = "Observe"
	Check       Op = "Check"
	Reserve     Op = "Reserve"
)

// A Call is one call of a [Fake].
type Call struct {
	Op          Op
	Provisioner string
	ID          uuid.UUID // uuid.Nil of Observe and Check
	Type        provisioner.ResourceType
	Fence       uuid.UUID
	Args        json.RawMessage
	Number      int // of this Op on this ID, from 1
	Batch       int // of Observe: how many resources
}

// A Step takes the place of one call. do is what the fake would do; a step may call it, or not, or do something else.
type Step func(ctx context.Context, c Call, do Do) (provisioner.Observation, error)

// Do is what a fake does without a script.
type Do func(ctx context.Context) (provisioner.Observation, error)

// Normal does what the fake does without a script.
func Normal() Step {
	return func(ctx context.Context, _ Call, do Do) (provisioner.Observation, error) { return do(ctx) }
}

// Fail does nothing and returns an error.
func Fail(err error) Step {
	return func(context.Context, Call, Do) (provisioner.Observation, error) {
		return provisioner.Observation{Phase: provisioner.PhaseUnknown}, err
	}
}

// FailAfter does what was asked and returns an error all the same, as when a reply is lost.
func FailAfter(err error) Step {
	return func(ctx context.Context, _ Call, do Do) (provisioner.Observation, error) {
		o, own := do(ctx)
		if own != nil {
			return o, own
		}
		return o, err
	}
}

// Panic panics before anything is done.
func Panic(value any) Step {
	return func(context.Context, Call, Do) (provisioner.Observation, error) { panic(value) }
}

// PanicAfter does what was asked and panics.
func PanicAfter(value any) Step {
	return func(ctx context.Context, _ Call, do Do) (provisioner.Observation, error) {
		_, _ = do(ctx)
		panic(value)
	}
}

// Hang does nothing until the context ends.
func Hang() Step {
	return func(ctx context.Context, _ Call, _ Do) (provisioner.Observation, error) {
		<-ctx.Done()
		return provisioner.Observation{Phase: provisioner.PhaseUnknown}, context.Cause(ctx)
	}
}

// Slow does what was asked after d, unless the context ends before.
func Slow(d time.Duration) Step {
	return func(ctx context.Context, _ Call, do Do) (provisioner.Observation, error) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return do(ctx)
		case <-ctx.Done():
			return provisioner.Observation{Phase: provisioner.PhaseUnknown}, context.Cause(ctx)
		}
	}
}

// Gate tells that it was reached, by closing reached if it is not nil, and does what was asked once open is closed. With
// deaf it does not listen to its context: so does a process that stood still.
func Gate(reached chan<- struct{}, open <-chan struct{}, deaf bool) Step {
	return func(ctx context.Context, _ Call, do Do) (provisioner.Observation, error) {
		if reached != nil {
			close(reached)
		}
		done := ctx.Done()
		if deaf {
			done = nil
			ctx = context.WithoutCancel(ctx)
		}
		select {
		case <-open:
			return do(ctx)
		case <-done:
			return provisioner.Observation{Phase: provisioner.PhaseUnknown}, context.Cause(ctx)
		}
	}
}

// Lie does nothing and says this.
func Lie(o provisioner.Observation) Step {
	return func(context.Context, Call, Do) (provisioner.Observation, error) { return o, nil }
}

// Pending says that the resource is on its way, and does nothing.
func Pending(reason string) Step {
	return Lie(provisioner.Observation{Phase: provisioner.PhasePending, Reason: reason})
}

func (c Call) String() string {
	if c.ID == uuid.Nil {
		return fmt.Sprintf("%s at %s", c.Op, c.Provisioner)
	}
	return fmt.Sprintf("%s of %s at %s", c.Op, c.ID, c.Provisioner)
}
