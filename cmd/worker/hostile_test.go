package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"berth/internal/terminal"
	"berth/lifecycle"
)

// hostile are texts that come from elsewhere: from a backend, a runtime, a person.
var hostile = []string{
	`O'Brien "quoted" \ back`, "<script>alert(1)</script>", "🚀 👩‍💻 🇩🇪 ❤️", "\u202egnp.exe", "\u2066isolated\u2069",
	"\x1b[2J\x1b]0;title\x07\x1b[31mred", "\u009b31mred\u0085", "\x7f\b\b\b", strings.Repeat("x", 200), strings.Repeat("long words ", 200),
	"e\u0301a\u0308\u0304" + strings.Repeat("o\u0336", 50), "日本支社の名前", "a\nb\r\n\tc\vd\u2028e", "\ufeffBOM", "%s %d {{.}} $(id) `id`",
}

var gapForm = regexp.MustCompile(` {2,}`)

// harmless looks at what a person sees: nothing in it does anything to a screen.
func harmless(t *testing.T, what, seen string) {
	t.Helper()
	for _, r := range seen {
		require.True(t, r == '\n' || !unicode.IsControl(r) && !unicode.Is(unicode.Cf, r), "%s: %q in %q", what, r, seen)
	}
}

// aligned looks whether the columns of a table stand under each other: between them there are blanks in every line.
func aligned(t *testing.T, what, table string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(table, "\n"), "\n")
	blank := make([]bool, terminal.Width)
	for i := range blank {
		blank[i] = true
	}
	for _, line := range lines {
		at := 0
		for _, r := range line {
			for range terminal.Columns(string(r)) {
				blank[at] = blank[at] && r == ' '
				at++
			}
		}
	}
	gaps, run := 0, 0
	for _, b := range blank {
		if b {
			run++
			continue
		}
		if run >= 2 {
			gaps++
		}
		run = 0
	}
	require.Equal(t, len(gapForm.FindAllString(lines[0], -1)), gaps, "%s:\n%s", what, table)
}

// TestHostile puts texts that are meant to do harm wherever one can stand, and looks at everything that is listed and shown.
func TestHostile(t *testing.T) {
	t.Parallel()
	b := seeded(t)
	b.provisioner("odd")
	b.exec("UPDATE berth.provisioners SET type = $1 WHERE name = 'odd'", hostile[5])
	var ids, resources []string
	for i, text := range hostile {
		id := fmt.Sprintf("0197b0e6-0000-7000-8000-%012d", i+1)
		ids = append(ids, id)
		key := fmt.Sprintf("k%d=%s", i, strings.ToValidUTF8(text[:min(len(text), 1024)], ""))
		b.ok("deployment", "create", "acme/web", "--id", id)
		b.ok("deployment", "update", id, "--annotation", key)
		b.ok("project", "update", "acme/web", "--annotation", key)
		b.exec(`UPDATE berth.provisioner_resources SET reason = $2, message = $2, phase = 'ready', observed_generation = generation, claimed_generation = generation,
			config = jsonb_build_object('host', $2::text, 'audience', $2::text) WHERE deployment_id = $1`, id, text)
		b.exec("UPDATE berth.deployments SET state = CASE WHEN $2 THEN 'running' ELSE 'errored' END WHERE id = $1", id, i%2 == 0)
		b.exec("INSERT INTO berth.events (deployment_id, kind, actor, detail) VALUES ($1, $2, $2, jsonb_build_object('reason', $2::text))", ids[0], text)
		b.exec("INSERT INTO berth.static_runtimes (provisioner, host, url, audience, data_dir, slots) VALUES ('static-example', $1, $1, $1, $1, 10)", text)
		resources = append(resources, decode[lifecycle.Deployment](t, b.ok("deployment", "show", id, "-o", "json")).Resources[0].ID.String())
	}
	for _, listing := range [][]string{
		{"org", "list"}, {"project", "list"}, {"deployment", "list"}, {"deployment", "events", ids[0]}, {"resource", "list"}, {"provisioner", "list"},
		{"provisioner", "show", "static-example"}, {"provisioner", "explain", "static-example", "--slots", "1"},
	} {
		table, document := b.seen(listing...)
		for part := range strings.SplitSeq(table, "\n\n") {
			aligned(t, strings.Join(listing, " "), part)
		}
		for _, text := range hostile {
			require.True(t, listing[0] == "org" || holds(document, text), "%v: what a program reads is %q as it is", listing, text)
		}
	}
	for i, text := range hostile {
		for _, show := range [][]string{{"deployment", "show", ids[i]}, {"resource", "show", resources[i]}, {"resource", "reconcile", resources[i]}, {"project", "show", "acme/web"}} {
			_, document := b.seen(show...)
			require.True(t, holds(document, text), "%v: what a program reads is %q as it is", show, text)
		}
		r := b.worker("deployment", "wait", ids[i], "--for", "stopped", "--timeout", "1ms")
		require.Equal(t, exitFailed, r.status)
		require.Equal(t, 1, strings.Count(r.stderr, "\n"))
		harmless(t, "wait", r.stderr)
	}
}

// seen runs a command for a person and for a program, and has neither harm a screen.
func (b *testBundle) seen(args ...string) (table string, document any) {
	b.t.Helper()
	what := strings.Join(args, " ")
	r := b.worker(args...)
	require.Zero(b.t, r.status, r.stderr)
	harmless(b.t, what, r.stdout)
	harmless(b.t, what, r.stderr)
	for line := range strings.Lines(r.stdout) {
		require.LessOrEqual(b.t, terminal.Columns(strings.TrimSuffix(line, "\n")), terminal.Width, "%s: %q", what, line)
	}
	asJSON := b.ok(append(args, "-o", "json")...)
	harmless(b.t, what, asJSON)
	return r.stdout, decode[any](b.t, asJSON)
}

// holds reports whether a text, or as much of it as an annotation may hold, stands anywhere in a document.
func holds(v any, text string) bool {
	switch v := v.(type) {
	case string:
		return strings.Contains(v, text[:min(len(text), 1024)])
	case []any:
		for _, x := range v {
			if holds(x, text) {
				return true
			}
		}
	case map[string]any:
		for k, x := range v {
			if k == text || holds(x, text) {
				return true
			}
		}
	}
	return false
}
