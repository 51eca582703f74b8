package reconcile

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"berth/provisioner"
	"berth/provisioner/provisionertest"
)

// A worker that stops lets running steps finish, gives back what it had to cut off, and loses nothing.
func TestStop(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("running steps finish", func(t *testing.T) {
		t.Parallel()
		f, fake, backends := faked(t)
		reached, open := make(chan struct{}), make(chan struct{})
		fake.Script(provisionertest.Reconcile, provisionertest.Gate(reached, open, false))
		n := f.start(backends)
		d := f.create(1)[0]
		<-reached
		stopped := make(chan error, 1)
		go func() { stopped <- n.river.Stop(ctx) }()
		f.none(`SELECT count(*) FROM berth.river_job WHERE state = 'available'`)
		close(open)
		require.NoError(t, <-stopped)
		n.stop()
		require.Equal(t, "running", f.state(d), "what it came to is stored")
		require.Equal(t, 1, f.count(`SELECT count(*) FROM berth.workers WHERE alive_until <= clock_timestamp()`), "it said that it ends")
	})
	t.Run("what is cut off is given back", func(t *testing.T) {
		t.Parallel()
		f, fake, backends := faked(t)
		fake.Always(provisionertest.Reconcile, uuid.Nil, provisionertest.Hang())
		n := f.start(backends)
		ids := f.create(30)
		require.NoError(t, fake.Await(ctx, provisionertest.Reconcile, uuid.Nil, 30))
		n.stop()
		require.Zero(t, f.count(`SELECT count(*) FROM berth.provisioner_resources WHERE fence IS NOT NULL OR failures > 0 OR lost > 0 OR claimed_generation = generation`))
		require.Equal(t, 30, f.count(`SELECT count(*) FROM berth.deployments WHERE state = 'pending'`))
		fake.Always(provisionertest.Reconcile, uuid.Nil, nil)
		log := &counting{}
		f.startWith(options{log: log.logger()}, backends)
		f.allRunning()
		require.Zero(t, log.count("taken over"))
		f.deleteAll(ids)
		empty(t, fake)
	})
	t.Run("parked outcomes are stored", func(t *testing.T) {
		t.Parallel()
		o := newOne(t, options{})
		release := o.park(ready, `{"password": "x"}`)
		stopped := make(chan error, 1)
		go func() { stopped <- o.Stop(ctx) }()
		<-o.looping.Done()
		release()
		require.NoError(t, <-stopped)
		require.Equal(t, "running", o.state(o.deployment))
	})
	t.Run("parked outcomes that can not be are given back with their notes", func(t *testing.T) {
		t.Parallel()
		o := newOne(t, options{})
		release := o.park(ready, `{"password": "x"}`)
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		require.ErrorContains(t, o.Stop(short), "stop: outcomes could not be stored in time")
		require.Equal(t, stand{Desired: "ready", Phase: "unknown", State: `{"password": "x"}`, Config: "{}", Waiting: true, HasLook: true}, o.stand(o.id))
		release()
	})
	t.Run("twice, and without a start", func(t *testing.T) {
		t.Parallel()
		f, _, backends := faked(t)
		e := f.unstarted(backends, options{})
		require.NoError(t, e.Drive(ctx, uuid.New(), "a"), "before the start")
		require.NoError(t, e.Stop(ctx))
		e = f.engine(backends, options{})
		require.NoError(t, e.Stop(ctx))
		require.NoError(t, e.Stop(ctx))
		require.NoError(t, e.Drive(ctx, f.runtime(f.create(1)[0]), "a"), "after the stop nothing is driven")
		require.Equal(t, 1, f.count(`SELECT count(*) FROM berth.provisioner_resources WHERE claimed_generation = 0`))
	})
	t.Run("a watch that does not listen", func(t *testing.T) {
		t.Parallel()
		deaf := make(chan struct{})
		b := &scripted{watch: func(context.Context, func(uuid.UUID)) error { <-deaf; return nil }}
		f, _, _ := faked(t)
		e := f.engine(map[string]provisioner.Provisioner{"a": b}, options{})
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		require.ErrorContains(t, e.Stop(short), "a watch of a provisioner does not end")
		close(deaf)
	})
}

// park has an outcome wait for somebody's lock, until released.
func (o *one) park(seen provisioner.Observation, state string) (release func()) {
	o.t.Helper()
	ctx := context.Background()
	tx, err := o.Pool.Begin(ctx)
	require.NoError(o.t, err)
	o.backend.reconcile = func(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
		r.State = json.RawMessage(state)
		_, err := tx.Exec(ctx, `SELECT FROM berth.deployments FOR NO KEY UPDATE`)
		return seen, err
	}
	o.drive(o.Engine, o.id)
	require.True(o.t, o.stand(o.id).Leased)
	return func() { require.NoError(o.t, tx.Rollback(ctx)) }
}
