package reconcile

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/db/dbtest"
	"berth/provisioner"
)

// hand has an operator hand over.
func (u *upgrade) hand(digest string) {
	u.t.Helper()
	u.tx(func(tx pgx.Tx) error {
		_, err := u.admin.Activate(context.Background(), tx, "a", digest)
		return err
	})
}

// A configuration that ceased to act while its backend did not answer tries the backend when it acts again. Until then it says nothing of it.
func TestBreakerAfterAHandOver(t *testing.T) {
	t.Parallel()
	u := newUpgrade(t)
	a, b := u.version("A"), u.version("B")
	var down atomic.Bool
	down.Store(true)
	a.reconcile = func(context.Context, *provisioner.Resource) (provisioner.Observation, error) {
		a.calls.Add(1)
		if down.Load() {
			return unknown, errDown
		}
		return ready, nil
	}
	one := u.seasoned(a)
	u.create(10)
	eventually(t, func() bool { return one.Breakers()["a"] }, "it opens")
	u.seasoned(b)
	u.hand("B")
	u.allRunning()
	eventually(t, func() bool { return b.watching.Load() == 1 && a.watching.Load() == 0 }, "the other one acts")
	require.False(t, one.Breakers()["a"], "what waits asks nobody")
	u.none(`SELECT count(*) FROM berth.workers WHERE open_breakers <> '{}'`)
	down.Store(false)
	u.hand("A")
	eventually(t, func() bool { return b.watching.Load() == 0 && a.watching.Load() == 1 }, "the first one acts again")
	u.none(`SELECT count(*) FROM berth.provisioner_resources WHERE fence IS NOT NULL`) // what the other one began has ended
	u.works(a, b)
	require.False(t, one.Breakers()["a"])
}

// What another configuration began is waited for: an operator handed back before it ended, and it is stored under that one yet.
func TestRolloutWaitsForWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	u := newUpgrade(t)
	id := u.runtime(u.running(1)[0])
	e := u.engine(map[string]provisioner.Provisioner{"a": u.version("B")}, options{as: Config{Digests: map[string]string{"a": "B"}}, set: func(e *Engine) {
		e.lookEvery, e.dispatchEvery = time.Hour, time.Hour
	}})
	old := uuid.New()
	u.exec(`INSERT INTO berth.workers (id, version, provisioners, digests, alive_until) VALUES ($1, '', '{a}', '{A}', now() + interval '1 hour')`, old)
	u.exec(`UPDATE berth.provisioners SET digest = 'A'`)
	u.exec(`UPDATE berth.provisioner_resources SET digest = 'B', generation = generation + 1`)
	u.claimFor(old, id)
	u.exec(`UPDATE berth.provisioners SET digest = 'B', rolled_at = now() - interval '1 minute'`)
	rolling := func() int {
		require.NoError(t, e.roll(context.Background(), e.backends["a"]))
		return u.count(`SELECT count(*) FROM berth.provisioners WHERE rolled_at IS NOT NULL`)
	}
	require.Equal(t, 1, rolling(), "it is under way")
	u.exec(`UPDATE berth.provisioner_resources SET digest = 'A', fence = NULL, leased_by = NULL, leased_until = NULL`)
	u.exec(`UPDATE berth.provisioners SET rolled_at = now() - interval '1 minute'`)
	require.Equal(t, 1, rolling())
	require.Equal(t, 1, u.count(`SELECT count(*) FROM berth.provisioner_resources WHERE claimed_generation < generation`), "it is driven anew")
	u.exec(`UPDATE berth.provisioner_resources SET digest = 'B', claimed_generation = generation`)
	u.exec(`UPDATE berth.provisioners SET rolled_at = now() - interval '1 minute'`)
	require.Zero(t, rolling())
}

// late brings a configuration into force, and its answer comes when another one acts already, or not at all.
type late struct {
	*version
	reached, open chan struct{}
}

var errLate = errors.New("no answer")

func (l *late) Activate(context.Context) error {
	l.activated.Add(1)
	l.reached <- struct{}{}
	<-l.open
	return errLate
}

// One that was brought into force late, or nobody knows whether, does not have the last word.
func TestBroughtIntoForceLate(t *testing.T) {
	t.Parallel()
	u := newUpgrade(t)
	a, b := &late{u.version("A"), make(chan struct{}), make(chan struct{})}, u.version("B")
	u.seasoned(b)
	u.works(b)
	n := u.unstarted(map[string]provisioner.Provisioner{"a": a}, options{set: hasty, log: u.log.logger(), as: Config{Digests: map[string]string{"a": "A"}}})
	require.NoError(t, n.Start(context.Background()))
	u.hand("A")
	<-a.reached
	eventually(t, func() bool { return b.watching.Load() == 0 }, "A acts")
	u.hand("B")
	eventually(t, func() bool { return b.watching.Load() == 1 }, "B acts")
	before := b.activated.Load()
	close(a.open)
	eventually(t, func() bool { return b.activated.Load() > before }, "B is brought into force once more")
}

// stranger can not be brought into force for as long as it is down.
type stranger struct {
	*version
	down atomic.Bool
}

func (b *stranger) Activate(context.Context) error {
	if b.down.Load() {
		panic("no route to password=hunter22")
	}
	return nil
}

// A worker starts though one of its provisioners can not be brought into force, works the others, and that one as soon as it can.
func TestOneThatCanNotBegin(t *testing.T) {
	t.Parallel()
	a, b := &stranger{}, &scripted{}
	backends := map[string]provisioner.Provisioner{"a": a, "b": b}
	f := newFleet(t, dbtest.New(t), map[string]provisioner.Provisioner{"a": b, "b": b})
	a.version = f.version("")
	a.down.Store(true)
	log := &counting{}
	f.startWith(options{set: hasty, log: log.logger()}, backends)
	ids := f.create(2)
	f.exec(`UPDATE berth.provisioner_resources SET provisioner = 'b', generation = generation + 1, retry_at = now() WHERE deployment_id = $1`, ids[1])
	f.none(`SELECT count(*) FROM berth.deployments WHERE id = $1 AND state <> 'running'`, ids[1])
	require.Equal(t, "pending", f.state(ids[0]))
	require.Equal(t, 1, log.count("bring the configuration of provisioner"), "told once")
	require.Zero(t, log.count("password=hunter22"))
	a.down.Store(false)
	f.allRunning()
}
