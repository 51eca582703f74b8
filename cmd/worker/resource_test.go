package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"berth/lifecycle"
)

func TestResource(t *testing.T) {
	t.Parallel()
	b := seeded(t)
	require.Equal(t, "[]\n", b.ok("resource", "list", "-o", "json"))
	b.ok("deployment", "create", "acme/web", "--id", someID)
	d := decode[lifecycle.Deployment](t, b.ok("deployment", "show", someID, "-o", "json"))
	id := d.Resources[0].ID.String()

	all := decode[[]map[string]any](t, b.ok("resource", "list", "-o", "json"))
	require.Len(t, all, 1)
	require.ElementsMatch(t, append(strings.Fields(resourceKeys), "deployment_id", "failing_since", "given_up_at", "paused_at"), keys(all[0]))
	require.Equal(t, someID, all[0]["deployment_id"])
	shown := decode[map[string]any](t, b.ok("resource", "show", id, "-o", "json"))
	require.ElementsMatch(t, []string{"id", "type", "name", "deployment_id", "places"}, keys(shown))
	require.Equal(t, []any{all[0]}, shown["places"], "a place is written as in the listing")

	b.fails(someID, "WorkerLost", "3 workers were lost in a row while they worked on it")
	b.exec("INSERT INTO berth.workers (id, version, provisioners, alive_until) VALUES (gen_random_uuid(), 'v', '{static-example}', now() + interval '1 hour')")
	golden(t, "resource_list.txt", b.ok("resource", "list"))
	golden(t, "resource_show.txt", b.ok("resource", "show", id))

	require.Len(t, decode[[]any](t, b.ok("resource", "list", "-o", "json", "--deployment", someID, "--provisioner", "static-example", "--type", "runtime", "--phase", "unknown", "--reason", "WorkerLost")), 1)
	require.Equal(t, "[]\n", b.ok("resource", "list", "-o", "json", "--phase", "ready"))
	require.Equal(t, "[]\n", b.ok("resource", "list", "-o", "json", "--after", id))
	require.Contains(t, b.worker("resource", "list", "--limit", "1").stderr, "there may be more: --after "+id)

	require.Contains(t, b.refused(exitRefused, "resource", "show", uuid.NewString()), "see the list of resources")
	require.Contains(t, b.refused(exitUsage, "resource", "list", "--phase", "gone"), "pending, ready")
	require.Contains(t, b.refused(exitRefused, "resource", "list", "--type", "No Type"), `"No Type"`)

	// What is left of a deployment that is gone.
	b.exec("UPDATE berth.provisioner_resources SET deployment_id = NULL, desired_phase = 'absent'")
	require.Contains(t, b.ok("resource", "show", id), "only cleaning up is left")
	require.Nil(t, decode[map[string]any](t, b.ok("resource", "show", id, "-o", "json"))["deployment_id"])
}

// A person's wake-up is a job that goes first, and says what it waits for where nobody could take it.
func TestResourceReconcile(t *testing.T) {
	t.Parallel()
	b := seeded(t)
	b.ok("deployment", "create", "acme/web", "--id", someID)
	id := decode[lifecycle.Deployment](t, b.ok("deployment", "show", someID, "-o", "json")).Resources[0].ID.String()
	b.fails(someID, "Invalid", "no such version")
	b.exec("DELETE FROM berth.river_job")

	r := b.worker("resource", "reconcile", id, "-o", "json")
	require.Zero(t, r.status, r.stderr)
	require.Contains(t, r.stderr, `no worker that has provisioner "static-example" is up: start worker run`)
	require.EqualValues(t, 2, decode[shownResource](t, r.stdout).Places[0].Generation)
	require.Equal(t, 1, b.count("SELECT count(*) FROM berth.river_job WHERE priority = 1 AND queue = 'provisioner-static-example'"))

	b.ok("resource", "pause", id)
	require.Contains(t, b.worker("resource", "reconcile", id).stderr, "it is paused: nothing of it is made, repaired or restarted: worker resource resume "+id)
	b.ok("resource", "resume", id)
	b.ok("provisioner", "pause", "static-example")
	require.Contains(t, b.worker("resource", "reconcile", id).stderr, ": worker provisioner resume static-example")
	b.ok("provisioner", "resume", "static-example")

	b.exec("UPDATE berth.provisioners SET seen_at = now() - interval '11 minutes'")
	r = b.worker("resource", "reconcile", id)
	require.Contains(t, r.stderr, "no live worker has its provisioner: start a worker that has static-example configured")
	require.Equal(t, 1, b.count("SELECT count(*) FROM berth.river_job WHERE queue = 'shared'"))

	b.exec("UPDATE berth.provisioners SET seen_at = now()")
	b.exec("INSERT INTO berth.workers (id, version, provisioners, alive_until) VALUES (gen_random_uuid(), 'v', '{static-example}', now() + interval '1 hour')")
	require.Contains(t, b.worker("resource", "reconcile", id).stderr, "is looked at again now")
	require.Contains(t, b.refused(exitRefused, "resource", "reconcile", uuid.NewString()), "does not exist")
}

// What was given up and is set right outside runs again once a person says so.
func TestResourceReconcileWorks(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.open()
	b := setup(t).with(pool(t, 4, g.URL))
	b.ok("org", "create", "acme")
	b.ok("project", "create", "acme/web")
	p := start(t, b.env, "run")
	p.line(p.stdout, "ready")
	b.ok("deployment", "create", "acme/web", "--id", someID, "--wait", patience.String())
	id := decode[lifecycle.Deployment](t, b.ok("deployment", "show", someID, "-o", "json")).Resources[0].ID.String()
	b.exec(`UPDATE berth.provisioner_resources SET phase = 'unknown', observed_generation = 0, given_up_at = now(), lost = 3, failures = 3, failing_since = now(), reason = 'WorkerLost', retry_at = NULL`)
	b.exec("UPDATE berth.deployments SET state = 'errored'")
	b.ok("resource", "reconcile", id)
	require.Eventually(t, func() bool {
		return decode[lifecycle.Deployment](t, b.ok("deployment", "show", someID, "-o", "json")).State == lifecycle.Running
	}, patience, 20*time.Millisecond)
}
