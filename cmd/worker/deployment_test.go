package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"berth/lifecycle"
)

// seeded is a database with a project to make deployments from. No worker runs on it.
func seeded(t *testing.T) *testBundle {
	t.Helper()
	b := setup(t)
	b.provisioner("static-example")
	b.ok("org", "create", "acme")
	b.ok("project", "create", "acme/web", "--slots", "2")
	return b
}

// runs writes what a worker would have.
func (b *testBundle) runs(id string) {
	b.t.Helper()
	b.exec(`UPDATE berth.provisioner_resources SET phase = 'ready', claimed_generation = generation, observed_generation = generation, retry_at = NULL, deadline_at = NULL,
		config = '{"host": "http://127.0.0.1:9001", "audience": "http://127.0.0.1:9001", "data_dir": "/mnt/data", "slots": 2, "cpu": 2, "memory_gb": 8, "storage_bytes": 80000000000}'
		WHERE deployment_id = $1`, id)
	b.exec("UPDATE berth.deployments SET state = 'running' WHERE id = $1", id)
}

// fails writes what a worker would have whose tries all fail.
func (b *testBundle) fails(id, reason, message string) {
	b.t.Helper()
	b.exec(`UPDATE berth.provisioner_resources SET claimed_generation = generation, failures = 3, failing_since = now(), given_up_at = now(),
		retry_at = now() + interval '1 minute', reason = $2, message = $3 WHERE deployment_id = $1`, id, reason, message)
	b.exec("UPDATE berth.deployments SET state = 'errored' WHERE id = $1", id)
}

const deploymentKeys = "created_at desired_state environment id message organization project reason resources runtime_audience runtime_host runtime_instance_id slots state updated_at version"
const resourceKeys = "args config deadline_at desired_phase failures generation id message name observed_generation phase provisioner reason retry_at type"

func TestDeployment(t *testing.T) {
	t.Parallel()
	b := seeded(t)
	require.Equal(t, "[]\n", b.ok("deployment", "list", "-o", "json"))

	id := uuid.NewString()
	created := b.ok("deployment", "create", "acme/web", "--id", id, "-o", "json")
	d := decode[map[string]any](t, created)
	require.Subset(t, keys(d), strings.Fields(deploymentKeys))
	require.Equal(t, "pending", d["state"])
	require.Equal(t, "running", d["desired_state"])
	require.EqualValues(t, 2, d["slots"])
	resources := d["resources"].([]any)
	require.Len(t, resources, 1)
	r := resources[0].(map[string]any)
	require.Subset(t, keys(r), strings.Fields(resourceKeys))
	require.Equal(t, "runtime", r["type"])
	require.Equal(t, "static-example", r["provisioner"])
	require.Equal(t, strings.ReplaceAll(r["id"].(string), "-", ""), d["runtime_instance_id"])

	require.Equal(t, d, decode[map[string]any](t, b.ok("deployment", "create", "acme/web", "--id", id, "-o", "json")), "the same id is the same deployment")
	require.Equal(t, d, decode[map[string]any](t, b.ok("deployment", "show", id, "-o", "json")))
	golden(t, "deployment_pending.txt", b.ok("deployment", "show", id))

	b.runs(id)
	shown := b.ok("deployment", "show", id, "-o", "json")
	require.Contains(t, shown, `"storage_bytes": 80000000000`, "numbers come out as they are stored")
	d = decode[map[string]any](t, shown)
	require.Equal(t, "http://127.0.0.1:9001", d["runtime_host"])
	r = d["resources"].([]any)[0].(map[string]any)
	require.Nil(t, r["retry_at"])
	require.Contains(t, r, "retry_at")
	golden(t, "deployment_running.txt", b.ok("deployment", "show", id))

	another := decode[lifecycle.Deployment](t, b.ok("deployment", "create", "acme/web", "--environment", "dev", "--slots", "1", "--version", "1.2.3", "-o", "json"))
	require.NotEqual(t, uuid.Nil, another.ID)
	require.Equal(t, "dev", another.Environment)
	require.Equal(t, 1, another.Slots)
	require.Equal(t, "1.2.3", another.Version)
	b.fails(another.ID.String(), "Failed", "the runtime answers\n\x1b[31m500\x1b[0m, again and again, for as long as anybody has been looking at what it answers")
	golden(t, "deployment_errored.txt", b.ok("deployment", "show", another.ID.String()))
	golden(t, "deployment_list.txt", b.ok("deployment", "list", "--state", "running")+"\n"+b.ok("deployment", "list", "--state", "errored")+"\n"+b.ok("deployment", "list", "--state", "stopped"))

	require.Contains(t, b.refused(exitRefused, "deployment", "create", "acme/web", "--id", id, "--environment", "dev"), "another project or environment")
	require.Contains(t, b.refused(exitRefused, "deployment", "create", "acme/none"), `"acme/none"`)
	require.Contains(t, b.refused(exitRefused, "deployment", "create", "acme/web", "--environment", "Two Words"), "environment")
	require.Contains(t, b.refused(exitRefused, "deployment", "show", uuid.NewString()), "does not exist")
	require.Contains(t, b.refused(exitRefused, "deployment", "events", uuid.NewString()), "does not exist")
}

func TestDeploymentChanges(t *testing.T) {
	t.Parallel()
	b := seeded(t)
	id := uuid.NewString()
	b.ok("deployment", "create", "acme/web", "--id", id)
	b.runs(id)
	now := func(args ...string) lifecycle.Deployment {
		t.Helper()
		return decode[lifecycle.Deployment](t, b.ok(append([]string{"deployment"}, append(args, "-o", "json")...)...))
	}
	d := now("update", id, "--slots", "3", "--version", "1.2.3", "--annotation", "big=9007199254740993")
	require.Equal(t, 3, d.Slots)
	require.Equal(t, "1.2.3", d.Version)
	require.Equal(t, lifecycle.Updating, d.State)
	require.Contains(t, string(d.Resources[0].Args), "9007199254740993")
	require.NotContains(t, string(now("update", id, "--forget", "big").Resources[0].Args), "9007199254740993")
	require.Equal(t, now("show", id).Resources, now("update", id, "--slots", "3").Resources, "what changes nothing drives nothing")
	require.Equal(t, lifecycle.Stopped, now("stop", id).DesiredState)
	require.Equal(t, lifecycle.Stopping, now("stop", id).State)
	require.Equal(t, lifecycle.Running, now("start", id).DesiredState)
	require.Equal(t, "hibernated", now("restart", id).Resources[0].DesiredPhase)
	require.Contains(t, b.ok("deployment", "start", id), "wished hibernated")
	require.Contains(t, b.refused(exitRefused, "deployment", "update", id), "changes nothing")

	r := b.worker("deployment", "delete", id)
	require.Zero(t, r.status, r.stderr)
	require.Empty(t, r.stdout)
	require.Contains(t, r.stderr, "is being deleted")
	require.Contains(t, b.refused(exitRefused, "deployment", "start", id), "being deleted")
	b.ok("deployment", "delete", id)

	events := decode[[]map[string]any](t, b.ok("deployment", "events", id, "-o", "json"))
	var kinds []string
	for _, e := range events {
		require.ElementsMatch(t, []string{"id", "at", "deployment_id", "resource_id", "kind", "actor", "detail"}, keys(e))
		require.Equal(t, actor, e["actor"])
		kinds = append(kinds, e["kind"].(string))
	}
	for _, k := range []string{lifecycle.DeploymentCreated, lifecycle.UpdateAsked, lifecycle.StopAsked, lifecycle.StartAsked, lifecycle.RestartAsked, lifecycle.DeleteAsked} {
		require.Contains(t, kinds, k)
	}
	golden(t, "deployment_events.txt", b.ok("deployment", "events", id))

	for _, c := range []string{"start", "stop", "restart", "delete"} {
		require.Contains(t, b.refused(exitRefused, "deployment", c, uuid.NewString()), "does not exist")
	}
}

func TestDeploymentPages(t *testing.T) {
	t.Parallel()
	b := seeded(t)
	b.ok("org", "create", "blue")
	b.ok("project", "create", "blue/web")
	for range 3 {
		b.ok("deployment", "create", "acme/web")
	}
	b.ok("deployment", "create", "blue/web")
	list := func(args ...string) []lifecycle.Deployment {
		t.Helper()
		return decode[[]lifecycle.Deployment](t, b.ok(append([]string{"deployment", "list", "-o", "json"}, args...)...))
	}
	all := list()
	require.Len(t, all, 4)
	first := b.worker("deployment", "list", "--limit", "2")
	require.Contains(t, first.stderr, "--after "+all[1].ID.String())
	require.Equal(t, all[2:], list("--limit", "2", "--after", all[1].ID.String()))
	require.Len(t, list("--org", "ACME"), 3)
	require.Len(t, list("--project", "blue/web"), 1)
	require.Len(t, list("--provisioner", "static-example", "--state", "pending"), 4)
	require.Empty(t, list("--provisioner", "nowhere"))
	require.Equal(t, "[]\n", b.ok("deployment", "list", "-o", "json", "--org", "nobody"))
}

func TestDeploymentWait(t *testing.T) {
	t.Parallel()
	b := seeded(t)
	id := uuid.NewString()
	b.ok("deployment", "create", "acme/web", "--id", id)

	r := b.worker("deployment", "wait", id, "--for", "running", "--timeout", "1ms")
	require.Equal(t, exitFailed, r.status)
	require.Contains(t, r.stderr, `after 1ms it is still pending: no worker that has provisioner "static-example" is up: start worker run`)
	b.exec("INSERT INTO berth.workers (id, version, provisioners, alive_until) VALUES (gen_random_uuid(), 'v', '{static-example}', now() + interval '1 hour')")

	r = b.worker("deployment", "start", id, "--wait", "1ms", "-o", "json")
	require.Equal(t, exitFailed, r.status)
	require.Equal(t, "pending", decode[lifecycle.Deployment](t, r.stdout).State, "what was waited for in vain is shown")
	require.Contains(t, r.stderr, "still pending")

	b.exec("UPDATE berth.provisioner_resources SET reason = 'NoCapacity', message = 'all full' WHERE deployment_id = $1", id)
	require.Contains(t, b.worker("deployment", "wait", id, "--for", "running", "--timeout", "1ms").stderr, "NoCapacity: all full")

	done := make(chan result, 1)
	go func() {
		done <- worker(context.WithoutCancel(t.Context()), b.env, "deployment", "wait", id, "--for", "running", "--timeout", "1m")
	}()
	b.runs(id)
	r = <-done
	require.Zero(t, r.status, r.stderr)
	require.Contains(t, r.stderr, "is running at http://127.0.0.1:9001")

	b.fails(id, "Invalid", "no such version")
	r = b.worker("deployment", "wait", id, "--for", "running")
	require.Equal(t, exitFailed, r.status)
	require.Contains(t, r.stderr, "errored: Invalid: no such version")

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	b.exec("UPDATE berth.deployments SET state = 'pending' WHERE id = $1", id)
	require.Equal(t, exitFailed, worker(ctx, b.env, "deployment", "wait", id, "--for", "running").status, "a signal ends it")

	require.Contains(t, b.refused(exitRefused, "deployment", "wait", uuid.NewString(), "--for", "deleted"), "does not exist")
	b.exec("DELETE FROM berth.provisioner_resources WHERE deployment_id = $1", id)
	require.Contains(t, b.worker("deployment", "delete", id, "--wait", "1m").stderr, "is deleted")
	require.Zero(t, b.worker("deployment", "wait", id, "--for", "deleted").status)
	require.Contains(t, b.worker("deployment", "delete", id).stderr, "is deleted")
	require.Zero(t, b.worker("deployment", "delete", id, "--wait", "1m").status, "it may be repeated")
	require.Contains(t, b.refused(exitFailed, "deployment", "wait", id, "--for", "running"), "was deleted")
	require.Contains(t, b.refused(exitRefused, "deployment", "create", "acme/web", "--id", id), "was deleted")
}
