package main

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"berth/lifecycle"
)

func TestOrg(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.provisioner("static-example", "other")
	require.Equal(t, "[]\n", b.ok("org", "list", "-o", "json"))

	o := decode[map[string]any](t, b.ok("org", "create", "acme", "--default-provisioner", "other", "-o", "json"))
	require.Equal(t, "acme", o["name"])
	require.Equal(t, "other", o["default_provisioner"])
	require.ElementsMatch(t, []string{"id", "name", "default_provisioner", "created_at"}, keys(o))
	_, err := uuid.Parse(o["id"].(string))
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(o["created_at"].(string), "Z"), "UTC: %s", o["created_at"])
	b.ok("org", "create", "Blue")

	require.Equal(t, o, decode[map[string]any](t, b.ok("org", "show", "ACME", "-o", "json")), "names are found in any case")
	require.Len(t, decode[[]lifecycle.Organization](t, b.ok("org", "list", "-o", "json")), 2)
	golden(t, "org_list.txt", b.ok("org", "list"))
	golden(t, "org_show.txt", b.ok("org", "show", "acme")+"\n"+b.ok("org", "show", "blue"))

	require.Contains(t, b.refused(exitRefused, "org", "create", "aCmE"), "exists")
	require.Contains(t, b.refused(exitRefused, "org", "show", "nobody"), `"nobody"`)
	require.Contains(t, b.refused(exitRefused, "org", "create", "red", "--default-provisioner", "nowhere"), `"nowhere"`)
	require.Len(t, decode[[]lifecycle.Organization](t, b.ok("org", "list", "-o", "json")), 2, "what is refused makes nothing")
}

func TestOrgUpdate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.provisioner("static-example", "other")
	b.ok("org", "create", "acme")
	for _, at := range []string{"other", "other", ""} {
		o := b.ok("org", "update", "ACME", "--default-provisioner", at, "-o", "json")
		require.Equal(t, at, decode[lifecycle.Organization](t, o).DefaultProvisioner)
		require.Equal(t, o, b.ok("org", "show", "acme", "-o", "json"))
	}
	require.Contains(t, b.refused(exitRefused, "org", "update", "acme"), "name a default provisioner")
	require.Contains(t, b.refused(exitRefused, "org", "update", "acme", "--default-provisioner", "nowhere"), "choose one of other, static-example")
	require.Contains(t, b.refused(exitRefused, "org", "update", "nobody", "--default-provisioner", "other"), `"nobody"`)
}

func TestOrgDelete(t *testing.T) {
	t.Parallel()
	b := seeded(t)
	b.ok("deployment", "create", "acme/web", "--id", someID)
	for _, c := range [][]string{{"org", "delete", "acme"}, {"project", "delete", "acme/web"}} {
		require.Contains(t, b.refused(exitRefused, c...), "it has 1 deployment: delete what the list of its deployments shows, and try again when that is gone")
	}
	b.ok("deployment", "delete", someID)
	require.Contains(t, b.refused(exitRefused, "org", "delete", "acme"), "being deleted already: try again when that is gone")
	b.exec("DELETE FROM berth.provisioner_resources")
	b.exec("DELETE FROM berth.deployments")

	r := b.worker("project", "delete", "ACME/web")
	require.Equal(t, result{"", "project acme/web is deleted\n", 0}, r)
	require.Contains(t, b.refused(exitRefused, "project", "delete", "acme/web"), "does not exist")
	b.ok("project", "create", "acme/web")
	require.Equal(t, result{"", "organization acme is deleted\n", 0}, b.worker("org", "delete", "Acme"))
	require.Contains(t, b.refused(exitRefused, "org", "delete", "acme"), "does not exist")
	require.Equal(t, "[]\n", b.ok("project", "list", "-o", "json"))
}

// Names of customers end up in labels, names and addresses: each is either kept as it is, or refused before anything is made.
func TestOrgNames(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cases := map[string]struct {
		reason string
		status int
	}{
		"acme":                         {"a plain name", 0},
		"acme.":                        {"a dot may end it", 0},
		"dash-last-":                   {"a dash may end it", 0},
		strings.Repeat("a", 63):        {"63 characters are what a label holds", 0},
		strings.Repeat("b", 64):        {"64 are too many", exitRefused},
		"_@example.test":               {"the first character is no letter", exitRefused},
		"Ünïcode & Co":                 {"letters that a label cannot hold", exitRefused},
		"two words":                    {"a blank", exitRefused},
		"a/b":                          {"a slash stands between organization and project", exitRefused},
		"":                             {"no name", exitRefused},
		strings.Repeat("c", 62) + "-x": {"64 with a dash", exitRefused},
		`O'Brien "quoted"`:             {"quotes", exitRefused},
		"日本支社":                         {"no ASCII at all", exitRefused},
		"-dash-first":                  {"a dash begins it", exitRefused},
	}
	want := map[string]bool{}
	for name, c := range cases {
		r := b.worker("org", "create", "-o", "json", "--", name)
		require.Equal(t, c.status, r.status, "%q: %s: %s", name, c.reason, r.stderr)
		if c.status == 0 {
			want[name] = true
			require.Equal(t, name, decode[lifecycle.Organization](t, r.stdout).Name)
		} else {
			require.Contains(t, r.stderr, "1 to 63")
		}
	}
	for _, twin := range []string{"ACME", "aCmE"} {
		require.Contains(t, b.refused(exitRefused, "org", "create", twin), "exists")
	}
	for _, o := range decode[[]lifecycle.Organization](t, b.ok("org", "list", "-o", "json")) {
		require.True(t, want[o.Name], o.Name)
		delete(want, o.Name)
	}
	require.Empty(t, want)
}

func keys[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	return out
}
