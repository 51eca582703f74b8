package main

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"berth/lifecycle"
	"berth/provisioner"
	"berth/provisioner/provisionertest"
	"berth/provisioner/set"
)

// planning is a provisioner whose plans are written by a test.
type planning struct {
	*provisionertest.Fake
	plan func(context.Context, provisioner.Resource) ([]provisioner.Change, error)
}

func (p planning) Plan(ctx context.Context, r provisioner.Resource) ([]provisioner.Change, error) {
	return p.plan(ctx, r)
}

// planned runs the command on a set that has one provisioner.
func (b *testBundle) planned(p provisioner.Provisioner, resource uuid.UUID, format string) result {
	b.t.Helper()
	s, err := set.Parse(`{"static-example": {"type": "scripted", "spec": {}}}`, "static-example",
		provisioner.Registry{"scripted": func(string, json.RawMessage, provisioner.Options) (provisioner.Provisioner, error) { return p, nil }}, provisioner.Options{})
	require.NoError(b.t, err)
	var out, errs buffer
	a := &app{cli: &cli{DatabaseURL: b.db.URL}, lookupEnv: func(string) (string, bool) { return "", false }, stdout: &out, stderr: &errs}
	c := &resourcePlan{ID: id{resource}, output: output{Output: format}}
	err = a.reading(b.t.Context(), func(ad *admin) error { return c.plan(b.t.Context(), a, ad, s) })
	require.NoError(b.t, s.Close())
	if err != nil {
		_, _ = errs.Write([]byte(errorLines(err)))
	}
	return result{out.String(), errs.String(), exitStatus(err)}
}

// A plan is asked for with what a worker would ask with, told as it comes, and changes no row.
func TestResourcePlan(t *testing.T) {
	t.Parallel()
	b := seeded(t)
	b.ok("deployment", "create", "acme/web", "--id", someID)
	shown := decode[lifecycle.Deployment](t, b.ok("deployment", "show", someID, "-o", "json")).Resources[0]
	resource := shown.ID
	b.exec(`UPDATE berth.provisioner_resources SET state = '{"token": "noted", "big": 9007199254740993}', config = '{"host": "http://10.0.0.1"}'`)
	var asked provisioner.Resource
	changes, failed := []provisioner.Change{
		{Ref: "ConfigMap berth.0a", Action: "create"},
		{Ref: "Deployment runtime-0a", Action: "update", Detail: "spec.replicas: 1 -> 2; spec.template.spec.containers[0].image: \"registry.example.test/runtime:1.2.3\" -> \"registry.example.test/runtime:1.2.4\""},
		{Ref: "Service \x1b[31mruntime-0a", Action: "delete", Detail: "no template asks for it"},
	}, error(nil)
	p := planning{provisionertest.NewFake("static-example"), func(ctx context.Context, r provisioner.Resource) ([]provisioner.Change, error) {
		_, bounded := ctx.Deadline()
		require.True(t, bounded, "no call lasts for ever")
		asked = r
		return changes, failed
	}}
	before := everything(t, b.db.Pool)

	r := b.planned(p, resource, "json")
	require.Zero(t, r.status, r.stderr)
	require.Empty(t, r.stderr)
	require.Equal(t, resource, asked.ID)
	require.Equal(t, provisioner.Runtime, asked.Type)
	require.JSONEq(t, string(shown.Args), string(asked.Args))
	require.Equal(t, `{"big": 9007199254740993, "token": "noted"}`, string(asked.State))
	require.JSONEq(t, `{"host": "http://10.0.0.1"}`, string(asked.Config))
	got := decode[map[string]any](t, r.stdout)
	require.ElementsMatch(t, []string{"id", "provisioner", "desired_phase", "configuration", "acts", "changes"}, keys(got))
	require.Equal(t, []any{resource.String(), "static-example", "ready", false}, []any{got["id"], got["provisioner"], got["desired_phase"], got["acts"]})
	require.Equal(t, map[string]any{"object": "ConfigMap berth.0a", "action": "create", "detail": ""}, got["changes"].([]any)[0])
	require.Len(t, got["changes"], 3)
	require.NotContains(t, r.stdout, "noted", "its notes are nobody's business")
	require.Contains(t, b.planned(p, resource, "table").stdout, "which is not the one that workers act by")
	require.Equal(t, before, everything(t, b.db.Pool), "a plan is only a look")

	b.exec("UPDATE berth.provisioners SET digest = $1", got["configuration"])
	require.Equal(t, true, decode[map[string]any](t, b.planned(p, resource, "json").stdout)["acts"])
	r = b.planned(p, resource, "table")
	require.NotContains(t, r.stdout, "\x1b")
	golden(t, "resource_plan.txt", r.stdout)
	changes = nil
	golden(t, "resource_plan_none.txt", b.planned(p, resource, "table").stdout)
	require.Equal(t, []any{}, decode[map[string]any](t, b.planned(p, resource, "json").stdout)["changes"], "none is a list too")

	for want, status := range map[error]int{
		provisioner.ErrInvalid: exitRefused, provisioner.ErrUnavailable: exitFailed, errors.New("reset"): exitFailed,
	} {
		failed = want
		r = b.planned(p, resource, "json")
		require.Equal(t, status, r.status)
		require.Empty(t, r.stdout)
		require.Equal(t, "worker: plan of resource "+resource.String()+" at static-example: "+want.Error()+"\n", r.stderr)
	}
	failed = nil
	b.ok("deployment", "stop", someID)
	require.Contains(t, b.planned(p, resource, "table").stdout, "it is to be hibernated: this is what a start would do")
	b.ok("deployment", "delete", someID)
	r = b.planned(p, resource, "table")
	require.Equal(t, exitRefused, r.status)
	require.Contains(t, r.stderr, "it is being deleted, so nothing is made or changed for it any more")
	r = b.planned(p, uuid.New(), "table")
	require.Equal(t, exitRefused, r.status)
	require.Contains(t, r.stderr, "does not exist")
}

// What can not be planned is told: who can not plan, what is at a provisioner that is not configured here, a cluster that does not answer.
func TestResourcePlanRefuses(t *testing.T) {
	t.Parallel()
	b := seeded(t)
	b.ok("deployment", "create", "acme/web", "--id", someID)
	id := decode[lifecycle.Deployment](t, b.ok("deployment", "show", someID, "-o", "json")).Resources[0].ID.String()
	require.Contains(t, b.worker("resource", "plan", id).stderr, set.EnvSet, "there is no set")
	b.with(configuredWith(poolSet, "static-example"))
	require.Equal(t, `worker: provisioner "static-example": its type does not tell beforehand what it would change: see worker resource show `+id+"\n",
		b.refused(exitRefused, "resource", "plan", id))

	b.with(cluster(t, "https://127.0.0.1:1", "{token: hunter2}"))
	require.Equal(t, "worker: resource "+id+`: it is at provisioner "static-example", which is not in the set: give the set that its workers have: `+set.EnvSet+" or --provisioner-set\n",
		b.refused(exitRefused, "resource", "plan", id))

	b.provisioner("k8s-a")
	b.exec("UPDATE berth.provisioner_resources SET provisioner = 'k8s-a'")
	got := b.refused(exitFailed, "resource", "plan", id)
	require.Contains(t, got, "worker: plan of resource "+id+" at k8s-a: look: ")
	require.Contains(t, got, "the cluster does not answer")
	require.NotContains(t, got, "hunter2")
	b.exec("UPDATE berth.provisioner_resources SET args = args || '{\"slots\": 0}'")
	require.Contains(t, b.refused(exitRefused, "resource", "plan", id), "slots")
}
