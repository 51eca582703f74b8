package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"berth/lifecycle"
)

func TestPauseProvisioner(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.provisioner("static-eu")
	status := func() string {
		t.Helper()
		return decode[[]listed](t, b.ok("provisioner", "list", "-o", "json"))[0].Status
	}
	for range 2 { // it may be repeated
		require.Equal(t, "paused", decode[listed](t, b.ok("provisioner", "pause", "static-eu", "-o", "json")).Status)
		require.Equal(t, "paused", status())
	}
	require.Contains(t, b.ok("provisioner", "pause", "static-eu"), "paused")
	b.exec(`INSERT INTO berth.workers (id, version, provisioners, alive_until, open_breakers) VALUES (gen_random_uuid(), 'v', '{static-eu}', now() + interval '1 hour', '{static-eu}'),
		(gen_random_uuid(), 'v', '{static-eu}', now() + interval '1 hour', '{}')`)
	require.Equal(t, "paused", status())
	for range 2 {
		require.Equal(t, "breaker_open", decode[listed](t, b.ok("provisioner", "resume", "static-eu", "-o", "json")).Status, "a worker says so")
	}
	b.exec(`UPDATE berth.workers SET alive_until = now()`)
	require.Equal(t, "ok", status(), "who is dead says nothing")
	b.ok("provisioner", "pause", "static-eu")
	b.exec(`UPDATE berth.provisioners SET seen_at = now() - interval '1 hour'`)
	require.Equal(t, "missing", status())
	for _, verb := range []string{"pause", "resume"} {
		require.Contains(t, b.refused(exitRefused, "provisioner", verb, "nobody"), `provisioner "nobody": it is not registered: `)
	}
}

func TestPauseResource(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.provisioner("static-eu")
	b.ok("org", "create", "acme")
	b.ok("project", "create", "acme/web")
	d := decode[lifecycle.Deployment](t, b.ok("deployment", "create", "acme/web", "--id", someID, "-o", "json"))
	id := d.Resources[0].ID.String()
	show := func() lifecycle.Deployment {
		t.Helper()
		return decode[lifecycle.Deployment](t, b.ok("deployment", "show", someID, "-o", "json"))
	}
	for range 2 { // it may be repeated
		require.NotNil(t, decode[shownResource](t, b.ok("resource", "pause", id, "-o", "json")).Places[0].PausedAt)
		require.Equal(t, "Paused", show().Reason)
		require.NotNil(t, show().Resources[0].PausedAt)
	}
	held := func(remedy string) {
		t.Helper()
		said := b.ok("deployment", "show", someID)
		for _, part := range []string{remedy, "none before it is resumed", "stands still until it is resumed"} {
			require.Contains(t, said, part)
		}
	}
	held("worker resource resume " + id)
	for range 2 {
		require.Nil(t, decode[shownResource](t, b.ok("resource", "resume", id, "-o", "json")).Places[0].PausedAt)
		require.Empty(t, show().Reason)
	}
	b.ok("provisioner", "pause", "static-eu")
	held("worker provisioner resume static-eu")
	b.ok("provisioner", "resume", "static-eu")
	require.NotContains(t, b.ok("deployment", "show", someID), "resumed")
	for _, verb := range []string{"pause", "resume"} {
		require.Contains(t, b.refused(exitRefused, "resource", verb, someID), "it does not exist")
		require.Contains(t, b.refused(exitUsage, "resource", verb, "12"), "is no id")
	}
	b.ok("deployment", "delete", someID)
	require.Contains(t, b.refused(exitRefused, "resource", "pause", id), "it is being deleted")
}
