package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"berth/provisioner/set"
)

var wordForm = regexp.MustCompile("[a-z]+")

var blockForm = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

func blocks(t *testing.T, page, language string) (out []string) {
	t.Helper()
	raw, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, m := range blockForm.FindAllStringSubmatch(string(raw), -1) {
		if m[1] == language {
			out = append(out, m[2])
		}
	}
	require.NotEmpty(t, out)
	return out
}

// What the README says can be followed: its configuration is accepted, its commands are commands, and its code, and that of the page
// for those who write provisioners, is code that is compiled and tested.
func TestReadme(t *testing.T) {
	t.Parallel()
	const page = "../../README.md"
	for page, name := range map[string]string{page: "static-example", "../../docs/kubernetes.md": "k8s-eu"} {
		for _, text := range blocks(t, page, "json") {
			text = strings.ReplaceAll(text, `"examples/`, `"../../examples/`) // as seen from the top of a checkout
			r := worker(t.Context(), configuredWith(text, name), "config", "check")
			require.Zero(t, r.status, r.stderr)
		}
	}

	commands := 0
	for _, text := range blocks(t, page, "sh") {
		for line := range strings.Lines(text) {
			line, _, _ = strings.Cut(line, "#")
			args := strings.Fields(strings.ReplaceAll(line, " ID", " "+someID))
			if len(args) == 0 || args[0] != "worker" {
				continue
			}
			commands++
			var c cli
			parser, err := kong.New(&c, kong.Vars(vars()))
			require.NoError(t, err)
			_, err = parser.Parse(args[1:])
			require.NoError(t, err, line)
		}
	}
	require.Positive(t, commands)
	raw, err := os.ReadFile(page)
	require.NoError(t, err)
	_, table, found := strings.Cut(string(raw), "| commands of `worker` |")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")
	for _, command := range leaves(t) {
		require.True(t, slices.ContainsFunc(strings.Split(table, "\n"), func(row string) bool {
			cell, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
			words := wordForm.FindAllString(cell, -1)
			return !slices.ContainsFunc(wordForm.FindAllString(strings.Join(command, " "), -1), func(w string) bool { return !slices.Contains(words, w) })
		}), "no row has worker %s", strings.Join(command, " "))
	}

	examples := ""
	for _, pattern := range []string{"../../lifecycle/example_test.go", "../../provisioner/provisionertest/example_test.go"} {
		raw, err := os.ReadFile(filepath.Clean(pattern))
		require.NoError(t, err)
		examples += unindented(string(raw))
	}
	for _, page := range []string{page, "../../docs/provisioners.md"} {
		for _, text := range blocks(t, page, "go") {
			require.Contains(t, examples, unindented(text), page)
		}
	}
}

// TestReadmeConfiguration compares the table of the README with the flags of run.
func TestReadmeConfiguration(t *testing.T) {
	t.Parallel()
	const page, begin, end = "../../README.md", "<!-- configuration: begin -->\n", "<!-- configuration: end -->"
	raw, err := os.ReadFile(page)
	require.NoError(t, err)
	head, rest, found := strings.Cut(string(raw), begin)
	require.True(t, found, "the page has no mark %q", begin)
	got, tail, found := strings.Cut(rest, end)
	require.True(t, found, "the page has no mark %q", end)
	want := configurationTable(t)
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(head+begin+want+end+tail), 0o600))
		return
	}
	require.Empty(t, cmp.Diff(want, got), "run go test ./cmd/worker -run TestReadmeConfiguration -update")
}

// configurationTable is a row for each flag of run, with the variables that give it.
func configurationTable(t *testing.T) string {
	t.Helper()
	var c cli
	parser, err := kong.New(&c, kong.Vars(vars()))
	require.NoError(t, err)
	command, err := parser.Parse([]string{"run"})
	require.NoError(t, err)
	var b strings.Builder
	b.WriteString("\n| flag | environment | default | what it is |\n|---|---|---|---|\n")
	for _, group := range command.Selected().AllFlags(true) {
		for _, f := range group {
			if f.Name == "help" {
				continue
			}
			env, byDefault := "", ""
			if name := f.Tag.Get(envTag); name != "" {
				env = "`" + name + "`"
			}
			if name := f.Tag.Get(settingTag); name != "" {
				env = "`" + strings.Join([]string{name, alias(name), name + set.EnvFile, alias(name) + set.EnvFile}, "`, `") + "`"
			}
			if f.Default != "" {
				byDefault = "`" + f.Default + "`"
			}
			require.NotContains(t, f.Help, "|")
			fmt.Fprintf(&b, "| `--%s` | %s | %s | %s |\n", f.Name, env, byDefault, f.Help)
		}
	}
	return b.String() + "\n"
}

func unindented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimLeft(line, "\t"))
	}
	return b.String()
}
