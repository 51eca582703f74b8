package trials

import (
	"testing"

	"github.com/stretchr/testify/require"

	"berth/lifecycle"
	"berth/provisioner/kubernetes/kubetest"
)

// writes are the kinds of what is written to a cluster, each before it is sent and after it was answered. Two follow one another that
// are of different kinds.
var writes = []hold{
	{When: before, What: "PATCH configmaps create"},
	{When: answered, What: "PATCH persistentvolumeclaims create"},
	{When: before, What: "PATCH persistentvolumeclaims merge"},
	{When: answered, What: "PATCH services create"},
	{When: before, What: "PATCH deployments create"},
	{When: answered, What: "PATCH deployments change"},
	{When: before, What: "DELETE configmaps"},
	{When: answered, What: "DELETE deployments"},
	{When: before, What: "DELETE persistentvolumeclaims"},
	{When: answered, What: "PATCH configmaps create"},
	{When: before, What: "PATCH persistentvolumeclaims create"},
	{When: answered, What: "PATCH persistentvolumeclaims merge"},
	{When: before, What: "PATCH services create"},
	{When: answered, What: "PATCH deployments create"},
	{When: before, What: "PATCH deployments change"},
	{When: answered, What: "DELETE configmaps"},
}

// Two of three workers are killed, again and again, at each kind of write to a cluster and between them, while deployments are made,
// change their minds, and go.
func TestKubernetesWorkersKilled(t *testing.T) {
	t.Parallel()
	c := newCluster(t, kubetest.New(t), true)
	c.order.MaxWorkers = 10
	end := c.guard()
	workers := []*process{c.start(), c.start(), c.start()}
	many := some(30)
	c.make(many)
	for range times(1) {
		for i := 0; i < len(writes)+2; i += 2 {
			var r round // at any moment, in the end
			if i < len(writes) {
				r = round{writes[i], writes[i+1]}
			}
			calm := func() {}
			took := c.killTwo(workers, r, func() { calm = c.unrest() })
			calm()
			c.change((*lifecycle.Client).Start, c.ids...)
			c.running()
			c.check()
			t.Logf("killed %s, and %s: taken over after %v", r[0], r[1], took)
		}
	}
	require.Equal(t, many, c.count(`SELECT count(*) FROM berth.deployments`))

	// And while they go.
	r := round{{When: before, What: "DELETE deployments"}, {When: answered, What: "DELETE persistentvolumeclaims"}}
	c.killTwo(workers, r, func() { c.change((*lifecycle.Client).Delete, c.ids...) })
	c.nothing()
	end()
}
