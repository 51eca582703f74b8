package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"berth/lifecycle"
)

func TestProject(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.provisioner("static-example")
	b.ok("org", "create", "acme")
	require.Equal(t, "[]\n", b.ok("project", "list", "-o", "json"))

	// Numbers in text stay as they were written, also those that a float would round.
	p := decode[map[string]any](t, b.ok("project", "create", "acme/web", "-o", "json", "--slots", "2", "--version", "1.2.3", "--provisioner", "static-example",
		"--annotation", "big=9007199254740993", "--annotation", "exp=1e3", "--annotation", "list=a,b;c=d"))
	require.ElementsMatch(t, []string{"id", "organization", "name", "provisioner", "slots", "version", "annotations", "created_at"}, keys(p))
	shown := b.ok("project", "show", "ACME/Web", "-o", "json")
	require.Equal(t, p, decode[map[string]any](t, shown))
	require.Equal(t, map[string]string{"big": "9007199254740993", "exp": "1e3", "list": "a,b;c=d"}, decode[lifecycle.Project](t, shown).Annotations)

	other := decode[map[string]any](t, b.ok("project", "create", "acme/other", "-o", "json"))
	require.Equal(t, map[string]any{}, other["annotations"], "an empty object, not null")
	require.EqualValues(t, 1, other["slots"])
	require.Equal(t, "latest", other["version"])

	golden(t, "project_list.txt", b.ok("project", "list"))
	golden(t, "project_show.txt", b.ok("project", "show", "acme/web"))

	require.Contains(t, b.refused(exitRefused, "project", "create", "acme/WEB"), "exists")
	require.Contains(t, b.refused(exitRefused, "project", "create", "nobody/web"), `"nobody"`)
	require.Contains(t, b.refused(exitRefused, "project", "show", "acme/none"), `"acme/none"`)
	require.Contains(t, b.refused(exitRefused, "project", "create", "acme/two words"), "1 to 63")
	require.Contains(t, b.refused(exitRefused, "project", "create", "acme/v", "--version", "1.2.3\n"), "version")
	require.Contains(t, b.refused(exitRefused, "project", "create", "acme/p", "--provisioner", "nowhere"), `"nowhere"`)
	require.Contains(t, b.refused(exitRefused, "project", "create", "acme/a", "--annotation", "bad key=1"), `"bad key"`)
	require.Len(t, decode[[]lifecycle.Project](t, b.ok("project", "list", "-o", "json")), 2)
}

func TestProjectUpdate(t *testing.T) {
	t.Parallel()
	b := seeded(t)
	b.ok("deployment", "create", "acme/web", "--id", someID)
	before := b.ok("deployment", "show", someID, "-o", "json")
	b.provisioner("other")
	now := func(args ...string) lifecycle.Project {
		t.Helper()
		p := decode[lifecycle.Project](t, b.ok(append([]string{"project", "update", "ACME/web", "-o", "json"}, args...)...))
		require.Equal(t, p, decode[lifecycle.Project](t, b.ok("project", "show", "acme/web", "-o", "json")))
		return p
	}
	p := now("--slots", "3", "--version", "1.2.3", "--provisioner", "other", "--annotation", "team=blue", "--annotation", "plan=x")
	require.Equal(t, 3, p.Slots)
	require.Equal(t, "1.2.3", p.Version)
	require.Equal(t, "other", p.Provisioner)
	require.Equal(t, map[string]string{"team": "blue", "plan": "x"}, p.Annotations)
	p = now("--provisioner", "", "--forget", "plan")
	require.Empty(t, p.Provisioner)
	require.Equal(t, map[string]string{"team": "blue"}, p.Annotations)
	require.Equal(t, 3, p.Slots, "what is not given stays as it is")
	require.Equal(t, before, b.ok("deployment", "show", someID, "-o", "json"), "what exists stays as it is, and where it is")

	require.Contains(t, b.refused(exitRefused, "project", "update", "acme/web"), "name a provisioner, slots")
	require.Contains(t, b.refused(exitRefused, "project", "update", "acme/none", "--slots", "1"), `"acme/none"`)
	require.Contains(t, b.refused(exitRefused, "project", "update", "acme/web", "--provisioner", "nowhere"), "choose one of other, static-example")
}
