package reconcile

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"berth/provisioner"
)

// behind is how many places another configuration was the last to drive.
func (u *upgrade) behind() int {
	u.t.Helper()
	return u.count(`SELECT count(*) FROM berth.provisioner_resources WHERE digest <> 'B'`)
}

// told is the line that says that the configuration B has all there is.
const told = `resources were brought to the configuration that acts" provisioner=a digest=B`

// What there is comes to a changed configuration at a bounded rate, however many workers there are and though one ends in the
// middle; clients are told what changed for them, and nothing is written of what stays as it was.
func TestRollout(t *testing.T) {
	t.Parallel()
	const places, rate = 60, 20
	u := newUpgrade(t)
	a, b := u.version("A"), u.version("B")
	a.reconcile = func(_ context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
		r.Config = []byte(`{"host": "http://one"}`)
		return ready, nil
	}
	third := make(chan struct{})
	b.reconcile = func(_ context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
		if b.calls.Add(1) == places/3 {
			close(third)
		}
		if r.ID[15]%2 == 0 {
			r.Config = []byte(`{"host": "http://two"}`)
		}
		return ready, nil
	}
	old := u.seasoned(a)
	u.create(places)
	u.allRunning()
	u.none(`SELECT count(*) FROM berth.provisioner_resources WHERE digest <> 'A' OR fence IS NOT NULL OR claimed_generation < generation`)
	const rest = `SELECT string_agg(id || ' ' || md5((to_jsonb(p) - '{digest,generation,claimed_generation,observed_generation,retry_at,updated_at,config}'::text[])::text), E'\n' ORDER BY id)
		FROM berth.provisioner_resources p`
	var before, after string
	u.row(rest, nil, &before)
	events := u.count(`SELECT count(*) FROM berth.events`)
	old.stop()

	slow := func(c *Config) { c.RolloutRate = rate }
	var workers []*node
	for range 3 {
		n := u.begin(b, slow)
		trust(n.Engine)
		workers = append(workers, n)
	}
	u.becomes("B")
	var begun time.Time
	u.row(`SELECT acts_since FROM berth.provisioners`, nil, &begun)
	bounded := func() (left int) {
		require.Less(t, time.Since(begun), 3*time.Minute, u.describe())
		left = u.behind()
		// The clock is read after the rows are, so that what is counted is never ahead of it.
		most := int(time.Since(begun).Seconds()*rate) + 1
		require.LessOrEqual(t, places-left, most, "no faster than the rate")
		return left
	}
	for more := true; more; {
		select {
		case <-third:
			more = false
		default:
			bounded()
		}
	}
	workers[0].stop()
	workers[1].stop()
	u.begin(b, slow)
	for bounded() > 0 {
	}
	eventually(t, func() bool { return u.log.count(told) == 1 }, "its end is told, once")
	require.Equal(t, 1, u.log.count(told+" done=60 total=60"))
	require.Positive(t, u.log.count(`resources are brought to the configuration that acts" provisioner=a digest=B`))
	require.Less(t, b.calls.Load(), int32(2*places), "each once, but for what a stop cut off")
	require.Equal(t, places, u.count(`SELECT count(DISTINCT args ->> 'resource_id') FROM berth.river_job WHERE priority = 2`), "behind what a person waits for")

	u.none(`SELECT count(*) FROM berth.provisioner_resources WHERE fence IS NOT NULL OR claimed_generation < generation`)
	u.row(rest, nil, &after)
	require.Equal(t, before, after, "nothing but the mark, where the outcome is the same")
	changed := u.count(`SELECT count(*) FROM berth.provisioner_resources WHERE config ->> 'host' = 'http://two'`)
	require.Equal(t, events+changed, u.count(`SELECT count(*) FROM berth.events`))
	require.Equal(t, changed, u.count(`SELECT count(*) FROM berth.events WHERE kind = 'ConfigChanged'`))
}

// What fails under the changed configuration, or is held just then, holds up neither the others nor the end.
func TestRolloutOfWhatFails(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	u := newUpgrade(t)
	a, b := u.version("A"), u.version("B")
	old := u.seasoned(a)
	ids := u.create(3)
	u.allRunning()
	old.stop()
	bad := u.runtime(ids[0])
	b.reconcile = func(_ context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
		if r.ID == bad {
			return provisioner.Observation{Phase: provisioner.PhaseReady}, provisioner.ErrInvalid
		}
		return ready, nil
	}
	tx, err := u.Pool.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `SELECT FROM berth.provisioner_resources WHERE id = $1 FOR NO KEY UPDATE`, u.runtime(ids[1]))
	require.NoError(t, err)
	u.seasoned(b)
	u.none(`SELECT count(*) FROM berth.provisioner_resources WHERE digest <> 'B' AND deployment_id <> $1`, ids[1])
	require.Zero(t, u.log.count(told))
	require.NoError(t, tx.Rollback(ctx))
	u.none(`SELECT count(*) FROM berth.provisioners WHERE rolled_at IS NOT NULL`)
	require.Zero(t, u.behind())
	require.Equal(t, "Invalid", u.stand(bad).Reason)
}

// A rate below one a second is kept too.
func TestSlowRollout(t *testing.T) {
	t.Parallel()
	u := newUpgrade(t)
	u.exec(`UPDATE berth.provisioners SET digest = 'B', rolled_at = now() WHERE name = 'a'`)
	u.running(2)
	u.exec(`UPDATE berth.provisioner_resources SET digest = 'A'`)
	e := u.engine(map[string]provisioner.Provisioner{"a": u.version("B")}, options{as: Config{RolloutRate: 0.01, Digests: map[string]string{"a": "B"}}})
	ctx := context.Background()
	waiting := func() int {
		require.NoError(t, e.roll(ctx, e.backends["a"]))
		return u.count(`SELECT count(*) FROM berth.provisioner_resources WHERE claimed_generation < generation`)
	}
	require.Zero(t, waiting())
	u.exec(`UPDATE berth.provisioners SET rolled_at = rolled_at - interval '50 seconds'`)
	require.Zero(t, waiting())
	u.exec(`UPDATE berth.provisioners SET rolled_at = rolled_at - interval '51 seconds'`)
	require.Equal(t, 1, waiting())
	require.Equal(t, 1, waiting(), "one in so long")
	u.exec(`UPDATE berth.provisioners SET rolled_at = rolled_at - interval '1 hour', paused_at = now()`)
	require.Equal(t, 1, waiting(), "a pause holds it")
	u.exec(`UPDATE berth.provisioners SET paused_at = NULL`)
	require.Equal(t, 2, waiting())
	var to uuid.UUID
	u.row(`SELECT rolled_to FROM berth.provisioners WHERE name = 'a'`, nil, &to)
	require.NotEqual(t, uuid.Nil, to)
}
