package reconcile

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"berth/db/dbtest"
	"berth/provisioner"
)

// A lease that was lost is counted once, whenever that was noticed; what a shutdown or a person cut off lost none.
func TestLeasesLost(t *testing.T) {
	t.Parallel()
	o := newOne(t, options{set: func(e *Engine) { e.dispatchEvery = time.Hour }})
	require.Zero(t, o.LeasesLost())
	require.True(t, o.Alive())

	o.backend.reconcile = func(context.Context, *provisioner.Resource) (provisioner.Observation, error) {
		o.exec(`UPDATE berth.provisioner_resources SET fence = gen_random_uuid()`)
		return ready, nil
	}
	o.drive(o.Engine, o.id)
	require.EqualValues(t, 1, o.LeasesLost(), "its outcome came too late")

	cut := func(end func(cancel context.CancelFunc)) {
		o.exec(`UPDATE berth.provisioner_resources SET fence = NULL, leased_by = NULL, leased_until = NULL, generation = generation + 1`)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		o.backend.reconcile = func(ctx context.Context, _ *provisioner.Resource) (provisioner.Observation, error) {
			end(cancel)
			<-ctx.Done()
			return provisioner.Observation{}, ctx.Err()
		}
		require.NoError(t, o.Drive(ctx, o.id, "a"))
		o.parked.Wait()
	}
	cut(func(cancel context.CancelFunc) { cancel() })
	require.EqualValues(t, 1, o.LeasesLost(), "it was given back")
	cut(func(context.CancelFunc) {
		o.life.mu.Lock()
		defer o.life.mu.Unlock()
		o.life.lapse(errNotAlive)
	})
	require.EqualValues(t, 2, o.LeasesLost(), "the process could not say that it lives")
	require.False(t, o.unstarted(map[string]provisioner.Provisioner{}, options{}).Alive(), "it has not said that it lives yet")
}

// The call of a backend is a span of the run that it belongs to, with what came of it and no secret; a run without one has none.
func TestCallIsTraced(t *testing.T) {
	t.Parallel()
	recorder := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder))
	backends := map[string]provisioner.Provisioner{}
	b := &scripted{}
	backends["a"] = b
	f := newFleet(t, dbtest.New(t), backends)
	e := f.engine(backends, options{set: func(e *Engine) { e.dispatchEvery = time.Hour }})
	d := f.create(1)[0]
	id := f.runtime(d)

	// Without a span.
	b.reconcile = func(context.Context, *provisioner.Resource) (provisioner.Observation, error) {
		return provisioner.Observation{Phase: provisioner.PhasePending}, nil
	}
	f.drive(e, id)
	require.Empty(t, recorder.Ended())

	drive := func(answer func(context.Context, *provisioner.Resource) (provisioner.Observation, error)) sdk.ReadOnlySpan {
		b.reconcile = answer
		f.wake(id)
		before := len(recorder.Ended())
		ctx, span := provider.Tracer("test").Start(context.Background(), "run")
		require.NoError(t, e.Drive(ctx, id, "a"))
		span.End()
		ended := recorder.Ended()[before:]
		require.Len(t, ended, 2)
		require.Equal(t, "call provisioner", ended[0].Name())
		require.Equal(t, span.SpanContext().SpanID(), ended[0].Parent().SpanID())
		return ended[0]
	}
	attributes := func(s sdk.ReadOnlySpan) map[string]string {
		all := map[string]string{}
		for _, a := range s.Attributes() {
			all[string(a.Key)] = a.Value.AsString()
		}
		return all
	}
	failed := drive(func(context.Context, *provisioner.Resource) (provisioner.Observation, error) {
		return provisioner.Observation{}, errors.New("dial postgres://u:hunter2@db: no\nroute")
	})
	require.Equal(t, sdk.Status{Code: codes.Error, Description: "dial postgres://u:***@db: no route"}, failed.Status())
	require.Equal(t, map[string]string{
		"berth.provisioner": "a", "berth.kind": "provision_resource", "berth.resource_type": "runtime", "berth.resource_id": id.String(),
		"berth.deployment_id": d.String(), "berth.phase": "unknown", "berth.reason": "Failed",
	}, attributes(failed))
	panicked := drive(func(context.Context, *provisioner.Resource) (provisioner.Observation, error) {
		panic("password=hunter2")
	})
	require.Equal(t, codes.Error, panicked.Status().Code)
	require.NotContains(t, panicked.Status().Description, "hunter2")
	met := drive(func(context.Context, *provisioner.Resource) (provisioner.Observation, error) { return ready, nil })
	require.Equal(t, sdk.Status{}, met.Status())
	require.Equal(t, "ready", attributes(met)["berth.phase"])
}
