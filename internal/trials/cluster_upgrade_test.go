package trials

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/lifecycle"
	"berth/provisioner/kubernetes"
	"berth/provisioner/kubernetes/kubetest"
)

// Workers come, beside many deployments, with templates that say the same in other words, and with another version: nothing is
// written, and no pod is made anew. A change that is one is brought to all of them, and none is errored for it.
func TestKubernetesUpgrades(t *testing.T) {
	t.Parallel()
	c := newCluster(t, kubetest.New(t), true)
	c.order.MaxWorkers, c.order.Rollout = 20, 100
	plain := clusterTemplates["deployment"]
	replaced := func(old, text string) string {
		require.Contains(t, plain, old)
		return strings.Replace(plain, old, text, 1)
	}
	const first, second, args = "  strategy: {type: Recreate}\n", "  selector: {matchLabels: {runtime: {{ .ProvisionID | quote }}}}\n", "          args: [\"{{ .Slots }}\"]\n"
	plain = replaced(args, args+"          resources: {requests: {cpu: 0.01, memory: 1Gi}}\n")
	c.template("deployment", plain)
	old := c.start()
	many := some(100)
	c.make(many)
	c.running()
	c.check()
	end := c.guard(rule{"a deployment does not run", `SELECT count(*) FROM berth.deployments WHERE state <> 'running'`})
	pods, writes := c.pods(), c.said("a request was answered")
	require.Len(t, pods, many)
	next := func(version string) {
		p := c.start(func(o *order) { o.Version = version })
		var digest string
		require.NoError(t, c.Pool.QueryRow(t.Context(), `SELECT digests[1] FROM berth.workers WHERE id = $1`, p.id).Scan(&digest))
		if c.count(`SELECT count(*) FROM berth.provisioners WHERE name = $1 AND digest = $2`, inCluster, digest) == 0 {
			c.tx(func(ctx context.Context, tx pgx.Tx) error {
				_, err := c.admin.Activate(ctx, tx, inCluster, digest)
				return err
			})
		}
		old.signal(syscall.SIGTERM)
		old.wait()
		old = p
		c.none(`SELECT count(*) FROM berth.provisioners WHERE rolled_at IS NOT NULL`)
		c.none(`SELECT count(*) FROM berth.provisioner_resources p JOIN berth.provisioners v ON v.name = p.provisioner WHERE p.digest <> v.digest`)
	}
	for _, step := range []struct{ what, template string }{
		{"a comment", "# a second revision\n" + plain},
		{"other line ends", strings.ReplaceAll(plain, "\n", "\r\n")},
		{"another order", replaced(first+second, second+first)},
		{"another unit", replaced("cpu: 0.01, memory: 1Gi", `memory: "1073741824", cpu: 10m`)},
		{"another version", replaced("cpu: 0.01, memory: 1Gi", `memory: "1073741824", cpu: 10m`)},
	} {
		c.template("deployment", step.template)
		next(step.what)
		c.change((*lifecycle.Client).Reconcile, c.listed(`SELECT id FROM berth.provisioner_resources`)...)
		c.none(`SELECT count(*) FROM berth.provisioner_resources WHERE claimed_generation < generation OR fence IS NOT NULL`)
		require.Equal(t, pods, c.pods(), step.what)
		require.Equal(t, writes, c.said("a request was answered"), step.what)
	}
	end()

	end = c.guard(rule{"a deployment is blamed", `SELECT count(*) FROM berth.deployments WHERE state = 'errored'`})
	c.template("deployment", replaced(args, args+"          env: [{name: EXTRA, value: more}]\n"))
	next("a change")
	c.running()
	c.check()
	for id, uid := range c.pods() {
		require.NotEqual(t, pods[id], uid)
	}
	c.clean()
	end()
}

// template writes a template anew. Workers that run have read it.
func (c *cluster) template(key, text string) {
	c.t.Helper()
	require.NoError(c.t, os.WriteFile(c.paths[key], []byte(text), 0o600))
}

// pods are the uids of the pods, by their resources.
func (c *cluster) pods() map[string]string {
	c.t.Helper()
	all, err := c.there()
	require.NoError(c.t, err)
	pods := map[string]string{}
	for _, o := range slices.Concat(slices.Collect(maps.Values(all))...) {
		if o.GetKind() == "Pod" {
			pods[o.GetLabels()[kubernetes.LabelResource]] = string(o.GetUID())
		}
	}
	return pods
}
