package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/lifecycle"
)

// hosts makes the rows that a worker with a pool of these hosts would.
func (b *testBundle) hosts(provisioner string, hosts ...string) {
	b.t.Helper()
	for _, h := range hosts {
		b.exec("INSERT INTO berth.static_runtimes (provisioner, host, url, audience, data_dir, slots) VALUES ($1, $2, $2, $2, '/mnt/data', 10)", provisioner, h)
	}
}

func TestProvisionerList(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.Equal(t, "[]\n", b.ok("provisioner", "list", "-o", "json"))
	b.provisioner("static-eu", "static-us")
	b.exec("INSERT INTO berth.provisioners (name, type, supports, timeout) VALUES ('k8s-a', 'kubernetes', '{runtime}', '5 minutes')")
	b.hosts("static-eu", "http://10.0.0.1:8081", "http://10.0.0.2:8081", "http://10.0.0.3:8081", "http://10.0.0.4:8081")
	b.exec("UPDATE berth.static_runtimes SET unhealthy_since = now() WHERE host = 'http://10.0.0.2:8081'")
	b.exec("UPDATE berth.static_runtimes SET removed_at = now() WHERE host = 'http://10.0.0.4:8081'")
	b.exec("UPDATE berth.provisioners SET seen_at = now() - interval '11 minutes' WHERE name = 'static-us'")
	b.exec(`INSERT INTO berth.workers (id, version, provisioners, alive_until) VALUES
		(gen_random_uuid(), 'v', '{static-eu,k8s-a}', now() + interval '1 hour'), (gen_random_uuid(), 'v', '{static-eu}', now() + interval '1 hour'),
		(gen_random_uuid(), 'v', '{static-eu,static-us}', now())`)
	b.ok("provisioner", "cordon", "static-eu", "http://10.0.0.3:8081")

	all := decode[[]map[string]any](t, b.ok("provisioner", "list", "-o", "json"))
	require.Len(t, all, 3)
	for _, l := range all {
		require.ElementsMatch(t, []string{"name", "type", "status", "default", "workers", "resources", "slots_total", "slots_used", "largest_placeable", "hosts",
			"configuration", "acts_since", "resources_behind", "waiting_configurations"}, keys(l))
	}
	require.Equal(t, "k8s-a", all[0]["name"])
	for _, k := range []string{"slots_total", "slots_used", "largest_placeable", "hosts"} {
		require.Nil(t, all[0][k], "%s has no meaning there", k)
	}
	require.Equal(t, "ok", all[1]["status"])
	require.EqualValues(t, 2, all[1]["workers"])
	require.EqualValues(t, 0, all[2]["workers"], "who is dead does not count")
	require.EqualValues(t, 30, all[1]["slots_total"], "what left the configuration counts no more")
	require.EqualValues(t, 10, all[1]["largest_placeable"])
	require.Len(t, all[1]["hosts"], 3)
	require.Equal(t, "missing", all[2]["status"])
	require.Equal(t, []any{}, all[2]["hosts"], "empty, not null")
	golden(t, "provisioner_list.txt", b.ok("provisioner", "list"))
}

func TestCordon(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.provisioner("static-eu")
	b.exec("INSERT INTO berth.provisioners (name, type, supports, timeout) VALUES ('k8s-a', 'kubernetes', '{runtime}', '5 minutes')")
	b.hosts("static-eu", "http://10.0.0.1:8081")
	cordoned := func() bool {
		t.Helper()
		all := decode[[]listed](t, b.ok("provisioner", "list", "-o", "json"))
		return (*all[1].Hosts)[0].Cordoned
	}
	for range 2 { // it may be repeated
		b.ok("provisioner", "cordon", "static-eu", "http://10.0.0.1:8081")
		require.True(t, cordoned())
	}
	for range 2 {
		b.ok("provisioner", "uncordon", "static-eu", "HTTP://10.0.0.1:8081/")
		require.False(t, cordoned(), "a host is found however it is written")
	}
	require.Contains(t, b.refused(exitRefused, "provisioner", "cordon", "static-eu", "http://10.0.0.9"), "http://10.0.0.1:8081")
	require.Contains(t, b.refused(exitRefused, "provisioner", "cordon", "nobody", "http://10.0.0.1:8081"), `"nobody"`)
	require.Contains(t, b.refused(exitRefused, "provisioner", "cordon", "k8s-a", "http://10.0.0.1:8081"), "has no hosts")
}

// Who waits for a cordoned host is served soon after it is uncordoned, and told what it waits for until then.
func TestUncordonServes(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.open()
	b := setup(t).with(pool(t, 4, g.URL))
	b.ok("org", "create", "acme")
	b.ok("project", "create", "acme/web")
	p := start(t, b.env, "run")
	p.line(p.stdout, "ready")
	b.ok("provisioner", "cordon", "static-example", g.URL)
	b.ok("deployment", "create", "acme/web", "--id", someID)
	require.Eventually(t, func() bool {
		return decode[lifecycle.Deployment](t, b.ok("deployment", "show", someID, "-o", "json")).Reason == "NoCapacity"
	}, patience, 20*time.Millisecond)
	r := b.worker("deployment", "wait", someID, "--for", "running", "--timeout", "1ms")
	require.Equal(t, exitFailed, r.status)
	require.Contains(t, r.stderr, "NoCapacity")
	require.Contains(t, r.stderr, "cordoned")
	b.ok("provisioner", "uncordon", "static-example", g.URL)
	b.ok("deployment", "wait", someID, "--for", "running", "--timeout", patience.String())
}

// pooled is a pool with a host of each standing, and two who wait: one for ten slots, and one to grow on the first host.
func pooled(t *testing.T) *testBundle {
	t.Helper()
	b := seeded(t)
	b.exec("INSERT INTO berth.provisioners (name, type, supports, timeout) VALUES ('k8s-a', 'kubernetes', '{runtime}', '5 minutes')")
	b.hosts("static-example", "http://10.0.0.1", "http://10.0.0.2", "http://10.0.0.3", "http://10.0.0.4", "http://10.0.0.5", "http://10.0.0.6")
	b.exec("UPDATE berth.static_runtimes SET unhealthy_since = now() WHERE host = 'http://10.0.0.3'")
	b.exec("UPDATE berth.static_runtimes SET cordoned_at = now() WHERE host = 'http://10.0.0.4'")
	b.exec("UPDATE berth.static_runtimes SET slots = 4 WHERE host = 'http://10.0.0.5'")
	b.exec("UPDATE berth.static_runtimes SET slots = 6 WHERE host = 'http://10.0.0.6'")
	for range 4 {
		b.ok("deployment", "create", "acme/web")
	}
	hold := func(n int, sql string) {
		t.Helper()
		b.exec("INSERT INTO berth.static_slots (resource_id, provisioner, host, slots, wanted, ticket) SELECT id, provisioner, "+sql+
			" FROM berth.provisioner_resources ORDER BY id LIMIT 1 OFFSET $1", n)
	}
	hold(0, "'http://10.0.0.1', 8, 9, nextval('berth.static_tickets')")
	hold(1, "'http://10.0.0.1', 2, 2, NULL")
	hold(2, "'http://10.0.0.2', 3, 3, NULL")
	hold(3, "'http://10.0.0.6', 1, 1, NULL")
	return b
}

func TestProvisionerShow(t *testing.T) {
	t.Parallel()
	b := pooled(t)
	b.exec("UPDATE berth.provisioners SET seen_at = now() - interval '11 minutes'")
	list := decode[[]map[string]any](t, b.ok("provisioner", "list", "-o", "json"))
	for i, name := range []string{"k8s-a", "static-example"} {
		p := decode[map[string]any](t, b.ok("provisioner", "show", name, "-o", "json"))
		require.ElementsMatch(t, append(keys(list[i]), "supports", "timeout_seconds", "seen_at", "waiting"), keys(p))
		for k, v := range list[i] {
			require.Equal(t, v, p[k], "as in the listing: %s", k)
		}
		require.EqualValues(t, 300, p["timeout_seconds"])
		require.Equal(t, []any{"runtime"}, p["supports"])
		require.Equal(t, map[string]any{"k8s-a": nil, "static-example": 1.0}[name], p["waiting"])
	}
	golden(t, "provisioner_show.txt", b.ok("provisioner", "show", "static-example")+"\n"+b.ok("provisioner", "show", "k8s-a"))
	b.exec("UPDATE berth.provisioners SET seen_at = now()")
	b.exec("INSERT INTO berth.workers (id, version, provisioners, alive_until, open_breakers) VALUES (gen_random_uuid(), 'v', '{static-example}', now() + interval '1 hour', '{static-example}')")
	require.Contains(t, b.ok("provisioner", "show", "static-example"), "see to the backend")
	b.ok("provisioner", "pause", "static-example")
	require.Contains(t, b.ok("provisioner", "show", "static-example"), "worker provisioner resume static-example")
	require.Contains(t, b.refused(exitRefused, "provisioner", "show", "nobody"), "see worker provisioner list")
}

func TestProvisionerExplain(t *testing.T) {
	t.Parallel()
	b := pooled(t)
	b.exec("INSERT INTO berth.workers (id, version, provisioners, alive_until) VALUES (gen_random_uuid(), 'v', '{static-example}', now() + interval '1 hour')")
	x := decode[map[string]any](t, b.ok("provisioner", "explain", "static-example", "--slots", "4", "-o", "json"))
	require.ElementsMatch(t, []string{"provisioner", "slots", "outcome", "message", "spread", "pack", "waiting", "hosts"}, keys(x))
	require.ElementsMatch(t, []string{"host", "slots", "used", "cordoned", "healthy", "removed", "fits", "why", "kept_for"}, keys(x["hosts"].([]any)[0].(map[string]any)))

	waits := decode[[]lifecycle.Place](t, b.ok("resource", "list", "-o", "json"))[0].ID
	require.Equal(t, waits, *decode[explained](t, b.ok("provisioner", "explain", "static-example", "--slots", "1", "-o", "json")).Hosts[0].KeptFor)

	outcomes := ""
	for n, want := range map[string][3]string{
		"4":  {"placed", "http://10.0.0.5", "http://10.0.0.5"},
		"1":  {"placed", "http://10.0.0.5", "http://10.0.0.5"},
		"5":  {"placed", "http://10.0.0.6", "http://10.0.0.6"},
		"7":  {"placed", "http://10.0.0.2", "http://10.0.0.2"},
		"8":  {"waits", "", ""},
		"10": {"waits", "", ""},
		"11": {"never_fits", "", ""},
	} {
		x := decode[explained](t, b.ok("provisioner", "explain", "static-example", "--slots", n, "-o", "json"))
		host := func(p *string) string {
			if p == nil {
				return ""
			}
			return *p
		}
		require.Equal(t, want, [3]string{x.Outcome, host(x.Spread), host(x.Pack)}, "%s slots: %s", n, x.Message)
	}
	b.exec("UPDATE berth.static_runtimes SET unhealthy_since = NULL WHERE host = 'http://10.0.0.3'")
	b.exec("UPDATE berth.static_runtimes SET unhealthy_since = '2000-01-01T00:00:00Z' WHERE host = 'http://10.0.0.4'")
	for _, n := range []string{"6", "8", "11"} {
		outcomes += b.ok("provisioner", "explain", "static-example", "--slots", n) + "\n"
	}
	golden(t, "provisioner_explain.txt", outcomes)

	b.provisioner("static-new")
	empty := decode[map[string]any](t, b.ok("provisioner", "explain", "static-new", "--slots", "1", "-o", "json"))
	require.Equal(t, []any{}, empty["hosts"])
	require.Contains(t, empty["message"], "start a worker")
	require.Contains(t, b.ok("provisioner", "explain", "static-new", "--slots", "1"), "no worker that has it is up: start worker run")
	require.Contains(t, b.refused(exitRefused, "provisioner", "explain", "k8s-a", "--slots", "1"), "name a static one")
	require.Contains(t, b.refused(exitRefused, "provisioner", "explain", "nobody", "--slots", "1"), "see worker provisioner list")
	require.Contains(t, b.refused(exitUsage, "provisioner", "explain", "static-example"), "--slots")
}
