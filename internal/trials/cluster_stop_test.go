package trials

import (
	"testing"

	"github.com/stretchr/testify/require"

	"berth/lifecycle"
	"berth/provisioner/kubernetes/kubetest"
)

// The control plane is stopped, killed and hung, and comes back, while deployments are made, change their minds and go. Nobody is
// blamed for it, nothing is taken for gone that is not, and afterwards all is as it was wished.
func TestKubernetesStopsUnderLoad(t *testing.T) {
	t.Parallel()
	plane := kubetest.Private(t, kubetest.Options{})
	c := newCluster(t, plane.Namespace(t), false)
	c.order.MaxWorkers = 10
	end := c.guard(rule{"a deployment is blamed", `SELECT count(*) FROM berth.deployments WHERE state = 'errored'`})
	c.start()
	c.start()
	many := some(30)
	c.make(many)
	c.running()
	c.check()
	// None before: what it says is of this outage.
	const unanswered = `SELECT count(*) FROM berth.provisioner_resources WHERE reason = 'BackendUnavailable'`
	for _, outage := range []struct {
		name       string
		begin, end func(testing.TB)
	}{{"stopped", plane.Stop, plane.Start}, {"killed", plane.Kill, plane.Start}, {"hung", plane.Hang, plane.Resume}} {
		calm := c.unrest()
		c.until(func() bool {
			return c.count(`SELECT count(*) FROM berth.provisioner_resources WHERE fence IS NOT NULL`) > 0
		}, c.picture)
		outage.begin(t)
		c.until(func() bool { return c.count(unanswered) > 0 }, c.picture)
		outage.end(t)
		calm()
		c.change((*lifecycle.Client).Start, c.ids...)
		c.running()
		c.check()
		require.Zero(t, c.count(unanswered), outage.name)
	}
	require.Equal(t, many, c.count(`SELECT count(*) FROM berth.deployments`))

	// Nothing is gone because nobody answers.
	plane.Kill(t)
	c.change((*lifecycle.Client).Delete, c.ids...)
	c.until(func() bool { return c.count(unanswered) > 0 }, c.picture)
	require.Equal(t, many, c.count(`SELECT count(*) FROM berth.provisioner_resources`))
	plane.Start(t)
	c.nothing()
	end()
}
