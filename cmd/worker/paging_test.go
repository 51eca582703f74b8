package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each listing goes on where the page before it said.
func TestPaging(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.provisioner("p1", "p2", "p3")
	for _, name := range []string{"a", "B", "c"} {
		b.ok("org", "create", name)
		b.ok("project", "create", name+"/web")
	}
	b.ok("deployment", "create", "a/web", "--id", someID)
	for n := range 2 {
		b.ok("deployment", "update", someID, "--slots", fmt.Sprint(n+2))
	}
	for _, listing := range [][]string{{"org", "list"}, {"project", "list"}, {"provisioner", "list"}, {"deployment", "events", someID}} {
		all := decode[[]any](t, b.ok(append(listing, "-o", "json")...))
		require.Len(t, all, 3, listing)
		var paged []any
		for next := []string(nil); ; {
			r := b.worker(append(append(listing, "-o", "json", "--limit", "1"), next...)...)
			require.Zero(t, r.status, r.stderr)
			page := decode[[]any](t, r.stdout)
			if len(page) == 0 {
				require.Equal(t, "[]\n", r.stdout)
				require.Empty(t, r.stderr)
				break
			}
			require.Len(t, page, 1)
			paged = append(paged, page...)
			_, after, found := strings.Cut(r.stderr, "there may be more: ")
			require.True(t, found, r.stderr)
			next = strings.Fields(after)
		}
		require.Equal(t, all, paged, listing)
		require.Empty(t, b.worker(append(listing, "--limit", "4")...).stderr, "a page that is not full is the last")
		require.Contains(t, b.refused(exitUsage, append(listing, "--limit", "1001")...), "use 1 to 1000")
	}
	require.Contains(t, b.refused(exitUsage, "deployment", "events", someID, "--after=-1"), "id of an event")
	require.Contains(t, b.refused(exitUsage, "project", "list", "--after", "a"), "ORG/PROJECT")
	require.Contains(t, b.refused(exitRefused, "org", "list", "--after", "two words"), "no name has this form")
}
