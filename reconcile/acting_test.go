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
	"berth/internal/defaults"
	"berth/provisioner"
)

// version is a backend as one configuration has it. It notes what is done through it, and whether that was while another one acted.
type version struct {
	scripted
	f      *fleet
	digest string

	calls, activated, watched, watching, strange atomic.Int32
	sick                                         atomic.Bool
}

func (f *fleet) version(digest string) *version {
	v := &version{f: f, digest: digest}
	v.reconcile = func(context.Context, *provisioner.Resource) (provisioner.Observation, error) {
		v.calls.Add(1)
		if f.acting("a") != digest {
			v.strange.Add(1)
		}
		return ready, nil
	}
	return v
}

// Activate notes that the configuration comes into force.
func (v *version) Activate(context.Context) error {
	v.activated.Add(1)
	return nil
}

// Check fails while the version is sick.
func (v *version) Check(context.Context) (provisioner.Capacity, error) {
	if v.sick.Load() {
		return provisioner.Capacity{}, errors.New("no route to password=hunter22")
	}
	return provisioner.Capacity{}, nil
}

// Watch notes that it is watched.
func (v *version) Watch(ctx context.Context, _ func(uuid.UUID)) error {
	v.watched.Add(1)
	v.watching.Add(1)
	defer v.watching.Add(-1)
	<-ctx.Done()
	return nil
}

// untouched demands that nothing was done through it.
func (v *version) untouched() {
	v.f.t.Helper()
	require.Zero(v.f.t, v.calls.Load()+v.activated.Load()+v.watched.Load(), "%s does not act", v.digest)
}

// upgrade is a fleet whose workers have different configurations of one provisioner.
type upgrade struct {
	*fleet
	log *counting
}

func newUpgrade(t *testing.T) *upgrade {
	t.Helper()
	u := &upgrade{newFleet(t, dbtest.New(t), map[string]provisioner.Provisioner{"a": &scripted{}}), &counting{}}
	t.Cleanup(func() { require.Zero(t, u.log.count("hunter22"), "no secret is logged") })
	return u
}

// hasty has engines look often, and take silence for the end soon.
func hasty(e *Engine) { e.lookEvery, e.silence = 20*time.Millisecond, 3*time.Second }

// begin starts a worker.
func (u *upgrade) begin(v *version, also ...func(*Config)) *node {
	u.t.Helper()
	c := Config{Digests: map[string]string{"a": v.digest}}
	for _, a := range also {
		a(&c)
	}
	return u.startWith(options{as: c, set: hasty, log: u.log.logger()}, map[string]provisioner.Provisioner{"a": v})
}

// seasoned starts one that has been up for long.
func (u *upgrade) seasoned(v *version) *node {
	u.t.Helper()
	n := u.begin(v)
	trust(n.Engine)
	return n
}

// acting is the configuration that acts.
func (f *fleet) acting(name string) (digest string) {
	f.t.Helper()
	f.row(`SELECT digest FROM berth.provisioners WHERE name = $1`, []any{name}, &digest)
	return digest
}

func (u *upgrade) becomes(digest string) {
	u.t.Helper()
	eventually(u.t, func() bool { return u.acting("a") == digest }, digest+" acts")
}

// works demands that what is created comes to run, through this version alone.
func (u *upgrade) works(v *version, others ...*version) {
	u.t.Helper()
	before := v.calls.Load()
	was := make([]int32, len(others))
	for i, o := range others {
		was[i] = o.calls.Load()
	}
	u.create(10)
	u.allRunning()
	require.GreaterOrEqual(u.t, v.calls.Load(), before+10)
	for i, o := range others {
		require.Equal(u.t, was[i], o.calls.Load(), "%s does not act", o.digest)
	}
	require.Zero(u.t, v.strange.Load())
}

// successions is how often another configuration came to act.
func (u *upgrade) successions() int { return u.log.count("succeeds another") }

// Workers are replaced one after another by ones with another configuration; one of the old is restarted in the middle; then all is
// rolled back. One configuration acts at any time, and it changes when nobody has it any more.
func TestUpgradeAndRollback(t *testing.T) {
	t.Parallel()
	u := newUpgrade(t)
	a, b := u.version("A"), u.version("B")
	first, second := u.seasoned(a), u.seasoned(a)
	u.works(a)
	require.Equal(t, 1, u.successions(), "of none")

	newcomer := u.seasoned(b)
	first.stop()
	u.works(a, b)
	second.stop()
	second = u.begin(a) // at once, as one that is restarted
	newcomer2 := u.seasoned(b)
	u.works(a, b)
	b.untouched()
	require.Equal(t, 1, u.successions())

	second.stop()
	u.becomes("B")
	u.works(b, a)
	require.Equal(t, 2, u.successions(), "one of the two")
	eventually(t, func() bool { return b.watching.Load() == 2 && a.watching.Load() == 0 }, "both watch")

	// Rolled back.
	back := u.seasoned(a)
	calls, activated := a.calls.Load(), a.activated.Load()
	newcomer.stop()
	u.works(b, a)
	newcomer2.stop()
	u.becomes("A")
	u.works(a, b)
	require.Equal(t, 3, u.successions())
	require.Equal(t, activated+1, a.activated.Load(), "before it works again")
	require.Greater(t, a.calls.Load(), calls)
	back.stop()
}

// A newcomer that does not stay up never acts, not even when nobody else is there. Nor does one whose check fails.
func TestNewcomerThatCrashLoops(t *testing.T) {
	t.Parallel()
	u := newUpgrade(t)
	a, b, c := u.version("A"), u.version("B"), u.version("C")
	c.sick.Store(true)
	old := u.seasoned(a)
	for range 3 {
		u.begin(b).stop()
	}
	u.works(a, b)
	old.stop()
	sick := u.seasoned(c)
	for begun := time.Now(); time.Since(begun) < 5*time.Second; { // A has been silent for long by then
		u.begin(b).stop()
	}
	eventually(t, func() bool { return u.log.count("its check did not pass") > 0 }, "it says why it waits")
	require.Equal(t, "A", u.acting("a"))
	b.untouched()
	c.untouched()

	old = u.begin(a)
	u.works(a, b, c)
	require.Equal(t, 1, u.successions())
	c.sick.Store(false)
	old.stop()
	u.becomes("C")
	u.works(c, a, b)
	sick.stop()
}

// What waits for nobody stands still no longer than the silence, and what is asked for in between is done.
func TestAskedForWhileNobodyActs(t *testing.T) {
	t.Parallel()
	u := newUpgrade(t)
	a, b := u.version("A"), u.version("B")
	old := u.seasoned(a)
	old.stop()
	b.sick.Store(true) // else it would act by itself in a while
	newcomer := u.begin(b)
	u.create(10)
	u.exec(`UPDATE berth.provisioner_resources SET retry_at = now()`)
	require.NoError(t, newcomer.Dispatch(context.Background()))
	require.Equal(t, 10, u.count(`SELECT count(*) FROM berth.river_job WHERE state = 'available' AND queue = 'provisioner-a'`), "nobody took them, or added more")
	b.untouched()
	b.sick.Store(false)
	trust(newcomer.Engine)
	u.allRunning()
	require.Zero(t, b.strange.Load())
}

// A worker from before there were digests has nothing done behind its back, and nothing is done by it later.
func TestWorkersThatAnnounceNone(t *testing.T) {
	t.Parallel()
	u := newUpgrade(t)
	none, b := u.version(""), u.version("B")
	old := u.seasoned(none)
	newcomer := u.seasoned(b)
	u.works(none, b)
	b.untouched()
	old.stop()
	u.becomes("B")
	u.works(b, none)
	id := u.runtime(u.create(1)[0])
	u.wake(id)
	require.Zero(t, u.count(`SELECT count(*) FROM berth.claim(ARRAY[$1::uuid], ARRAY['a'], ARRAY[$2::uuid], $3, interval '1 minute', interval '6 seconds', true, interval '30 seconds')`,
		id, uuid.New(), uuid.New()), "a claim needs the configuration that acts")
	newcomer.stop()
}

// An operator hands over: runs that are under way end as they began, and what they did is done anew by the other one.
func TestOperatorHandsOver(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	u := newUpgrade(t)
	a, b := u.version("A"), u.version("B")
	reached, open := make(chan struct{}), make(chan struct{})
	a.reconcile = func(context.Context, *provisioner.Resource) (provisioner.Observation, error) {
		a.calls.Add(1)
		reached <- struct{}{}
		<-open
		return ready, nil
	}
	u.seasoned(a)
	u.seasoned(b)
	id := u.runtime(u.create(1)[0])
	<-reached
	u.tx(func(tx pgx.Tx) error {
		digest, err := u.admin.Activate(ctx, tx, "a", "B")
		require.Equal(t, "B", digest)
		return err
	})
	eventually(t, func() bool { return b.watching.Load() == 1 && a.watching.Load() == 0 }, "the other one acts")
	require.True(t, u.stand(id).Leased, "what was begun goes on")
	close(open)
	u.allRunning()
	u.none(`SELECT count(*) FROM berth.provisioner_resources WHERE digest <> 'B'`)
	require.EqualValues(t, 1, a.calls.Load())
	for begun := time.Now(); time.Since(begun) < 2*time.Second; { // longer than the silence: both are up, so nobody succeeds
		u.works(b, a)
	}
	require.Equal(t, "B", u.acting("a"))
}

// Two sites with different sets, each with one provisioner of its own and a default of its own.
func TestTwoSites(t *testing.T) {
	t.Parallel()
	west, east := &scripted{}, &scripted{}
	f := newFleet(t, dbtest.New(t), map[string]provisioner.Provisioner{"a": west, "b": east})
	log := &counting{}
	site := func(name string, b provisioner.Provisioner) *node {
		n := f.startWith(options{set: hasty, log: log.logger(), as: Config{Digests: map[string]string{name: "of " + name}, Default: name}},
			map[string]provisioner.Provisioner{name: b})
		trust(n.Engine)
		return n
	}
	isDefault := func() (name string) {
		f.row(`SELECT name FROM berth.provisioners WHERE is_default`, nil, &name)
		return name
	}
	one, other := site("a", west), site("b", east)
	ids := f.create(5)
	f.allRunning()
	require.Equal(t, "a", isDefault(), "the default of one of them is the default")
	other.stop()
	ids = append(ids, f.create(5)...)
	f.allRunning()
	other = site("b", east)
	require.Equal(t, 2, log.count("succeeds another"), "each took its own at the beginning, and kept it")

	// The default is handed over as a configuration is.
	one.stop()
	eventually(t, func() bool { return isDefault() == "b" }, "nobody has the other default any more")
	one = site("a", west)
	ids = append(ids, f.create(5)...)
	f.allRunning()
	require.Equal(t, 5, f.count(`SELECT count(*) FROM berth.provisioner_resources WHERE provisioner = 'b'`))
	require.Equal(t, "b", isDefault(), "it stays")
	f.deleteAll(ids)
	one.stop()
	other.stop()
}

// What is missing is told when a worker starts, with what is there.
func TestMissingIsTold(t *testing.T) {
	t.Parallel()
	f := newFleet(t, dbtest.New(t), map[string]provisioner.Provisioner{"a": &scripted{}, "b": &scripted{}})
	f.running(3)
	f.exec(`UPDATE berth.provisioners SET seen_at = now() - interval '11 minutes'`)
	log := &counting{}
	e := f.engine(map[string]provisioner.Provisioner{"b": &scripted{}}, options{log: log.logger(), set: func(e *Engine) { e.dispatchEvery = time.Hour }})
	require.Equal(t, 1, log.count("a provisioner is missing"))
	require.Equal(t, 1, log.count("provisioner=a resources=3"))
	require.NoError(t, e.shout(context.Background()))
	require.Equal(t, 1, log.count("a provisioner is missing"), "not again within the hour")
	e.shouted = e.shouted.Add(-defaults.Shout)
	require.NoError(t, e.shout(context.Background()))
	require.Equal(t, 2, log.count("a provisioner is missing"), "and after it")
}
