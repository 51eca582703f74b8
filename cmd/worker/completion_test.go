package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// completes has a real bash complete a line, as it would at its end, and returns what it offers.
func completes(t *testing.T, script, line string) []string {
	t.Helper()
	// Bash parts words at = as well; the last one is what is being written.
	words := strings.Split(strings.ReplaceAll(line, "=", " = "), " ")
	var in strings.Builder
	in.WriteString("source " + script + "\nCOMP_WORDS=(")
	for _, w := range words {
		in.WriteString(" '" + w + "'")
	}
	in.WriteString(" )\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\nprintf '%s\\n' \"$(complete -p worker)\" >&2\n_worker\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n")
	cmd := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-u")
	cmd.Stdin = strings.NewReader(in.String())
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Run(), stderr.String())
	require.Equal(t, "complete -F _worker worker\n", stderr.String())
	return strings.Fields(stdout.String())
}

func TestCompletionBash(t *testing.T) {
	t.Parallel()
	r := worker(t.Context(), nil, "completion", "bash")
	require.Zero(t, r.status, r.stderr)
	script := filepath.Join(t.TempDir(), "worker.bash")
	require.NoError(t, os.WriteFile(script, []byte(r.stdout), 0o600))
	cases := map[string]struct {
		reason, line string
		want         []string
	}{
		"Begun":         {"a command that is begun", "worker depl", []string{"deployment"}},
		"Below":         {"what stands below it", "worker org ", []string{"create", "list", "show", "update", "delete"}},
		"BelowBegun":    {"the same, begun", "worker org d", []string{"delete"}},
		"Flags":         {"flags of the command", "worker org create --de", []string{"--default-provisioner"}},
		"Global":        {"and of the program", "worker org list --data", []string{"--database-url"}},
		"Values":        {"values that are known", "worker org list --output ", []string{"table", "json"}},
		"Equals":        {"also after an equals sign", "worker org list --output=j", []string{"json"}},
		"EqualsEmpty":   {"with nothing after it yet", "worker org list --output=", []string{"table", "json"}},
		"Short":         {"and of the short form", "worker org list -o t", []string{"table"}},
		"Unknown":       {"others are the person's own", "worker deployment list --org ", nil},
		"FlagBefore":    {"a flag's value is no command", "worker --database-url org pro", []string{"project", "provisioner"}},
		"EqualsBefore":  {"nor is one after an equals sign", "worker --database-url=org pro", []string{"project", "provisioner"}},
		"Argument":      {"arguments that are known", "worker completion ", []string{"bash", "zsh", "fish"}},
		"ArgumentTaken": {"an argument that is a command's name leads nowhere", "worker org show list --out", []string{"--output"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.ElementsMatch(t, c.want, completes(t, script, c.line), c.reason)
		})
	}
	// Every command and every flag is offered where it stands.
	all, err := completions()
	require.NoError(t, err)
	require.Len(t, leaves(t), len(all)-1-groups(all))
	for _, at := range []string{"", "org", "deployment", "deployment list", "provisioner explain", "run"} {
		for _, c := range all {
			if c.path == at {
				require.ElementsMatch(t, append(names(c.commands), c.argument...), completes(t, script, strings.TrimSpace("worker "+at)+" "), at)
				var flags []string
				for _, n := range names(c.flags) {
					if strings.HasPrefix(n, "--") {
						flags = append(flags, n)
					}
				}
				require.ElementsMatch(t, flags, completes(t, script, strings.TrimSpace("worker "+at)+" --"), at)
			}
		}
	}
}

// groups counts commands that only hold others.
func groups(all []completed) (n int) {
	for _, c := range all[1:] {
		if len(c.commands) > 0 {
			n++
		}
	}
	return n
}

// A flag takes a value wherever it stands, or nowhere: the scripts rely on it.
func TestCompletionFlags(t *testing.T) {
	t.Parallel()
	all, err := completions()
	require.NoError(t, err)
	takes := map[string]bool{}
	for _, c := range all {
		for _, f := range c.flags {
			for _, n := range names([]offer{f}) {
				was, known := takes[n]
				require.True(t, !known || was == f.value, "%s %s", c.path, n)
				takes[n] = f.value
			}
		}
	}
	for _, shell := range []string{"zsh", "fish"} {
		r := worker(t.Context(), nil, "completion", shell)
		require.Zero(t, r.status, r.stderr)
		for _, c := range all {
			for _, o := range c.commands {
				require.Contains(t, r.stdout, o.name, "%s: %s", shell, c.path)
			}
			for _, f := range c.flags {
				require.Contains(t, r.stdout, strings.TrimPrefix(f.name, "--"), "%s: %s", shell, c.path)
			}
		}
	}
	r := worker(t.Context(), nil, "completion", "tcsh")
	require.Equal(t, exitUsage, r.status)
	require.Contains(t, r.stderr, "bash")
}
