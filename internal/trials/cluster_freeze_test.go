package trials

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"berth/lifecycle"
	"berth/provisioner"
	"berth/provisioner/kubernetes/kubetest"
)

// A late worker is stopped at a write to a cluster, of which others do something with what it worked on.
type late struct {
	at   hold
	then []change
}

// Workers are stopped before any write to a cluster, past their leases, while another hibernates, wakes, resizes and deletes what they
// worked on. When they wake, what was on its way is sent. It changes nothing of what the other made, and nothing of it stays.
func TestKubernetesWorkersAsleep(t *testing.T) {
	t.Parallel()
	stop, start, remove := (*lifecycle.Client).Stop, (*lifecycle.Client).Start, (*lifecycle.Client).Delete
	at := func(what string) hold { return hold{When: before, What: what} }
	cases := map[string]struct {
		first    change // what they are at; making if nil
		sleepers []late
		anchors  int // that are left, made late of what is gone
	}{
		"Making": {anchors: 1, sleepers: []late{
			{at("PATCH configmaps create"), []change{remove}},
			{at("PATCH configmaps create"), []change{stop}},
			{at("PATCH persistentvolumeclaims create"), []change{remove}},
			{at("PATCH persistentvolumeclaims create"), []change{stop, start}},
			{at("PATCH persistentvolumeclaims merge"), []change{stop, start}},
			{at("PATCH services create"), []change{stop}},
			{at("PATCH deployments create"), []change{stop, start}},
			{at("PATCH deployments create"), []change{remove}},
			{hold{When: answered, What: "PATCH deployments create"}, []change{grow}},
		}},
		"Changing": {first: grow, sleepers: []late{
			{at("PATCH configmaps change"), []change{grow}},
			{at("PATCH persistentvolumeclaims change"), []change{stop, start}},
			{at("PATCH persistentvolumeclaims change"), []change{grow}},
			{at("PATCH services change"), []change{stop}},
			{at("PATCH deployments change"), []change{stop, start}},
			{at("PATCH deployments change"), []change{grow, grow}},
			{at("PATCH deployments change"), []change{remove}},
			{hold{When: answered, What: "PATCH services change"}, []change{stop, start}},
		}},
		"Stopping": {first: stop, sleepers: []late{
			{at("DELETE configmaps"), []change{start}},
			{at("DELETE configmaps"), []change{start, grow}},
			{at("DELETE services"), []change{start}},
			{at("DELETE deployments"), []change{start}},
			{at("DELETE deployments"), []change{remove}},
			{hold{When: answered, What: "DELETE configmaps"}, []change{start}},
		}},
		"Deleting": {first: remove, sleepers: []late{
			{at("DELETE configmaps"), nil},
			{at("DELETE services"), nil},
			{at("DELETE deployments"), nil},
			{at("DELETE persistentvolumeclaims"), nil},
			{hold{When: answered, What: "DELETE deployments"}, nil},
		}},
	}
	for name, n := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range times(1) {
				c := newCluster(t, kubetest.New(t), true)
				c.order.MaxWorkers = 1 // what a sleeper holds is what it stands still at
				end := c.guard()
				asleep, held := c.lull(n.first, n.sleepers)
				c.others(asleep, held, n.sleepers)
				made := c.contents()
				c.late = n.anchors > 0

				for _, p := range asleep {
					p.signal(syscall.SIGCONT)
				}
				for _, p := range asleep {
					p.drain()
				}
				sent := 0
				for _, s := range n.sleepers {
					if s.at.When == answered {
						continue
					}
					sent++
				}
				require.Equal(t, sent, c.said(" held=true"))
				c.sweep(n.anchors)
				c.check()
				now := c.contents()
				for what, was := range made {
					require.Equal(t, was, now[what], what)
				}

				// Awake again, they work as before, under other names.
				c.until(func() bool {
					return c.count(`SELECT count(*) FROM berth.workers WHERE alive_until > clock_timestamp()`) == len(asleep)+1
				}, c.picture)
				c.ids = c.deployments()
				c.change(start, c.ids...)
				c.running()
				c.check()
				c.clean()
				end()
			}
		})
	}
}

// lull has workers begin with something, until each is at its write, and stops them there. It returns them, and the deployments that
// each of them works on.
func (c *cluster) lull(first change, sleepers []late) (asleep []*process, held [][]uuid.UUID) {
	c.t.Helper()
	if first != nil {
		awake := c.start(func(o *order) { o.MaxWorkers = 10 })
		c.make(4 * len(sleepers))
		c.running()
		awake.signal(syscall.SIGTERM) // the sleepers are to be the only ones
		awake.wait()
	}
	for range sleepers {
		asleep = append(asleep, c.start())
	}
	for i, p := range asleep {
		p.arm(sleepers[i].at)
	}
	// A few at a time: who sleeps takes none of the next ones.
	ids, given, held := c.ids, time.Time{}, make([][]uuid.UUID, len(sleepers))
	left := len(sleepers)
	c.until(func() bool {
		for i, p := range asleep {
			if held[i] == nil && p.heard("at") {
				p.signal(syscall.SIGSTOP)
				p.tell("on")                                                          // the first thing that it hears
				held[i] = slices.DeleteFunc(c.leased(p.id), func(id uuid.UUID) bool { // on a busy machine one takes over from another
					return slices.Contains(slices.Concat(held...), id)
				})
				left--
			}
		}
		if left == 0 || time.Since(given) < 300*time.Millisecond {
			return left == 0
		}
		given = time.Now()
		switch some := ids[:min(3, len(ids))]; {
		case first == nil && len(c.ids) < 4*len(sleepers):
			c.make(3)
		case len(some) > 0:
			c.change(first, some...)
			ids = ids[len(some):]
		}
		return false
	}, c.picture)
	for i, s := range sleepers {
		c.t.Logf("asleep %s: %v", s.at, held[i])
	}
	return asleep, held
}

// leased are the deployments that a worker works on.
func (c *cluster) leased(worker uuid.UUID) []uuid.UUID {
	c.t.Helper()
	ids := c.listed(`SELECT deployment_id FROM berth.provisioner_resources WHERE leased_by = $1`, worker)
	require.NotEmpty(c.t, ids)
	return ids
}

// others has another worker do what is asked with what the sleepers hold, until nothing is under way.
func (c *cluster) others(asleep []*process, held [][]uuid.UUID, sleepers []late) {
	c.t.Helper()
	c.start(func(o *order) { o.MaxWorkers = 10 })
	ids := make([]uuid.UUID, len(asleep))
	for i, p := range asleep {
		ids[i] = p.id
	}
	c.none(`SELECT count(*) FROM berth.workers WHERE id = ANY($1) AND alive_until > clock_timestamp()`, ids)
	for step, more := 0, true; more; step++ {
		more = false
		for i, s := range sleepers {
			if step < len(s.then) {
				c.change(s.then[step], held[i]...)
				more = true
			}
		}
		c.none(`SELECT count(*) FROM berth.deployments WHERE state <> desired_state`)
	}
	c.check()
}

// sweep removes what was made late of resources that are gone: so many anchors, which own nothing, and which the provisioner finds and
// removes by their uids. All else is collected by the cluster.
func (c *cluster) sweep(anchors int) {
	c.t.Helper()
	p, err := clusters(inCluster, c.spec(c.space.Cluster.Kubeconfig), provisioner.Options{})
	require.NoError(c.t, err)
	defer func() { require.NoError(c.t, (&tapped{p, nil}).Close()) }()
	lister, ok := p.(provisioner.Lister)
	require.True(c.t, ok)
	var all []provisioner.Object
	left := map[string]provisioner.Object{}
	c.until(func() bool {
		all, err = lister.List(c.t.Context())
		require.NoError(c.t, err)
		left = map[string]provisioner.Object{}
		only := true
		for _, o := range all {
			if c.count(`SELECT count(*) FROM berth.provisioner_resources WHERE id = $1`, o.ResourceID) == 0 {
				left[o.Ref] = o
				only = only && strings.HasPrefix(o.Ref, "v1/ConfigMap/berth.")
			}
		}
		return only && len(left) == anchors
	}, func() string {
		raw, _ := json.Marshal(all)
		return fmt.Sprintf("%d are of nothing that there is, of %s", len(left), raw)
	})
	for _, o := range left {
		require.NoError(c.t, lister.Remove(c.t.Context(), o))
	}
}
