package main

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"berth/lifecycle"
)

func TestProvisionerActivate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.provisioner("static-eu", "static-us")
	require.Contains(t, b.refused(exitRefused, "provisioner", "activate", "nobody"), `"nobody"`)
	require.Contains(t, b.refused(exitRefused, "provisioner", "activate", "static-eu"), "start a worker with the new one first")
	have := func(digest string, alive string) {
		b.exec(`INSERT INTO berth.workers (id, version, provisioners, digests, default_provisioner, alive_until)
			VALUES (gen_random_uuid(), 'v', '{static-us,static-eu}', ARRAY['', $1], 'static-us', now() + $2::interval)`, digest, alive)
	}
	have("aaaa1111aaaa1111aaaa1111aaaa1111", "1 hour")
	have("bbbb", "-1 second")
	acting := func() listed {
		t.Helper()
		return decode[[]listed](t, b.ok("provisioner", "list", "-o", "json"))[0]
	}
	require.Equal(t, []waits{{"aaaa1111aaaa1111aaaa1111aaaa1111", 1}}, acting().Waiting, "who is dead does not count")
	shown := b.ok("provisioner", "show", "static-eu")
	require.Contains(t, shown, "no worker that is up has its configuration that acts")
	require.Contains(t, shown, "worker provisioner activate static-eu")
	b.ok("provisioner", "activate", "static-eu")
	require.NotContains(t, b.ok("provisioner", "show", "static-eu"), "what to do")
	require.Equal(t, "aaaa1111aaaa1111aaaa1111aaaa1111", acting().Configuration)
	require.Empty(t, acting().Waiting)

	have("aaaa2222", "1 hour")
	require.Contains(t, b.refused(exitRefused, "provisioner", "activate", "static-eu"), "came to act only just now",
		"who asks twice does not get the old one back")
	have("cccc", "1 hour")
	have("cccc", "1 hour")
	golden(t, "provisioner_waiting.txt", b.ok("provisioner", "list"))
	for _, line := range []string{"aaaa1111aaaa         1  acts since ", "aaaa2222             1  waits", "cccc                 2  waits"} {
		require.Contains(t, b.ok("provisioner", "show", "static-eu"), "static-eu    "+line)
	}
	require.Contains(t, b.refused(exitRefused, "provisioner", "activate", "static-eu"), "aaaa2222, cccc: name one by the beginning")
	require.Contains(t, b.refused(exitRefused, "provisioner", "activate", "static-eu", "--digest", "aaaa1"), "worker provisioner list", "it acts already")
	b.ok("provisioner", "activate", "static-eu", "--digest", "aa")
	require.Equal(t, "aaaa2222", acting().Configuration)

	require.True(t, acting().Default)
	require.Contains(t, b.refused(exitRefused, "provisioner", "activate", "static-eu", "--default"), "no live worker has it as its default")
	for range 2 {
		b.ok("provisioner", "activate", "static-us", "--default")
		require.False(t, acting().Default)
	}
}

// A spec that changed reaches what runs, and clients are told; the worker that has it does nothing before it acts.
func TestChangedSpec(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.open()
	b := setup(t).with(pool(t, 4, g.URL))
	b.ok("org", "create", "acme")
	b.ok("project", "create", "acme/web")
	old := start(t, b.env, "run")
	old.line(old.stdout, "ready")
	ids := []string{uuid.NewString(), uuid.NewString()}
	for _, id := range ids {
		b.ok("deployment", "create", "acme/web", "--id", id, "--wait", patience.String())
	}
	changed := maps.Clone(b.env)
	maps.Copy(changed, pool(t, 4, g.URL))
	for k, v := range changed {
		changed[k] = strings.Replace(v, `"slots":4`, `"slots":4,"data_dir":"/elsewhere","audience_url":"https://runtime.example.com"`, 1)
	}
	newcomer := start(t, changed, "run")
	newcomer.line(newcomer.logged, "waits, because another one acts")
	newcomer.line(newcomer.stdout, "ready")
	require.Zero(t, b.count("SELECT count(*) FROM berth.static_runtimes WHERE data_dir = '/elsewhere'"), "it writes nothing")
	next := decode[[]listed](t, b.ok("provisioner", "list", "-o", "json"))[0].Waiting[0].Digest
	b.ok("provisioner", "activate", "static-example", "--digest", next) // the other one has acted for seconds only
	newcomer.line(newcomer.logged, "all resources were brought")
	for _, id := range ids {
		d := decode[lifecycle.Deployment](t, b.ok("deployment", "show", id, "-o", "json"))
		require.Equal(t, lifecycle.Running, d.State)
		require.Equal(t, "https://runtime.example.com", d.RuntimeAudience)
		require.Contains(t, string(d.Resources[0].Config), "/elsewhere")
		require.Contains(t, b.ok("deployment", "events", id), "ConfigChanged")
	}
	old.line(old.logged, "waits, because another one acts")
}
