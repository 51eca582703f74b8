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
