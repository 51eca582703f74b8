package main

import (
	"context"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"berth/internal/terminal"
)

// leaves lists all commands that do something.
func leaves(t *testing.T) [][]string {
	t.Helper()
	var c cli
	parser, err := kong.New(&c, kong.Vars(vars()))
	require.NoError(t, err)
	var out [][]string
	for _, n := range parser.Model.Leaves(true) {
		out = append(out, strings.Fields(n.FullPath())[1:])
	}
	return out
}

func TestHelp(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, command := range append([][]string{{}}, leaves(t)...) {
		r := worker(t.Context(), nil, append(command, "--help")...)
		require.Zero(t, r.status, r.stderr)
		require.Empty(t, r.stderr)
		b.WriteString("$ worker " + strings.Join(append(command, "--help"), " ") + "\n" + r.stdout + "\n")
	}
	for line := range strings.Lines(b.String()) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), terminal.Width)
	}
	golden(t, "help.txt", b.String())
}

func TestWrongUse(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		args   []string
		env    map[string]string
		want   string
	}{
		"Nothing":        {"there is no command that is meant by none", nil, nil, "expected one of"},
		"Unknown":        {"an unknown command is told", []string{"nonsense"}, nil, "nonsense"},
		"NoDatabase":     {"the remedy is named", []string{"org", "list"}, nil, "set DATABASE_URL or give --database-url"},
		"NoDatabaseRead": {"an empty variable is none", []string{"migrate", "status"}, map[string]string{"DATABASE_URL": ""}, "set DATABASE_URL"},
		"Format":         {"the formats are named", []string{"org", "list", "-o", "xml"}, nil, `"table","json"`},
		"Project":        {"a project has two names", []string{"deployment", "create", "acme"}, nil, "acme/web"},
		"ProjectDeep":    {"and no more", []string{"deployment", "create", "a/b/c"}, nil, "acme/web"},
		"ID":             {"an id is a UUID", []string{"deployment", "show", "12"}, nil, `"12" is no id`},
		"Help":           {"of the command that was meant", []string{"deployment", "show"}, nil, `expected "<ID>": see worker deployment show --help`},
		"HelpOfMany":     {"of those that may have been meant", []string{"deployment"}, nil, "see worker deployment --help"},
		"NilID":          {"the nil UUID names nothing", []string{"deployment", "show", "00000000-0000-0000-0000-000000000000"}, nil, "is no id"},
		"Slots":          {"zero is not a way to leave slots out", []string{"deployment", "update", someID, "--slots", "0"}, nil, `"0" is no number of slots`},
		"SlotsHuge":      {"what is too large is not rounded", []string{"project", "create", "a/b", "--slots", "9007199254740993"}, nil, "2147483647"},
		"RuntimeVersion": {"a version is written in full", []string{"run", "--runtime-version", "1.x"}, nil, `--runtime-version: "1.x" is no version`},
		"NoVersion":      {"none is no version", []string{"dev", "--runtime-version", ""}, nil, `--runtime-version: "" is no version`},
		"For":            {"the states are named", []string{"deployment", "wait", someID, "--for", "gone"}, nil, `"running","stopped","deleted"`},
		"ForMissing":     {"waiting for nothing makes no sense", []string{"deployment", "wait", someID}, nil, "--for"},
		"Timeout":        {"no time is too little", []string{"deployment", "wait", someID, "--for", "running", "--timeout", "0s"}, nil, "30s"},
		"Wait":           {"a negative time is none", []string{"deployment", "start", someID, "--wait=-1s"}, nil, "30s"},
		"State":          {"a state that is none matches nothing", []string{"deployment", "list", "--state", "gone"}, nil, "pending, running"},
		"Limit":          {"a page holds something", []string{"deployment", "list", "--limit", "0"}, nil, "use 1 to"},
		"Orgs":           {"two organizations match nothing", []string{"deployment", "list", "--org", "a", "--project", "b/c"}, nil, "leave one of them out"},
		"Annotation":     {"an annotation has a value", []string{"project", "create", "a/b", "--annotation", "x"}, nil, "KEY=VALUE"},
		"Annotations":    {"and each key one", []string{"project", "create", "a/b", "--annotation", "x=1", "--annotation", "x=2"}, nil, "twice"},
		"Level":          {"the environment is checked as flags are", []string{"org", "list"}, map[string]string{"LOG_LEVEL": "loud"}, "loud"},
		"URL":            {"what is no URL is told", []string{"org", "list"}, map[string]string{"DATABASE_URL": "nonsense"}, "postgres://"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := worker(t.Context(), c.env, c.args...)
			require.Equal(t, exitUsage, r.status, "%s: %s", c.reason, r.stderr)
			require.Empty(t, r.stdout, c.reason)
			require.Contains(t, r.stderr, c.want, c.reason)
			require.Equal(t, 1, strings.Count(r.stderr, "\n"), "%s: %s", c.reason, r.stderr)
			require.True(t, strings.HasPrefix(r.stderr, "worker: "), r.stderr)
		})
	}
}

// What a person pastes in the wrong place is often what must not be seen.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	cases := map[string][]string{
		"Argument":    {"migrate", "up", "postgres://u:" + secret + "@localhost/x"},
		"Flag":        {"migrate", "up", "--databse-url=postgres://u:" + secret + "@localhost/x"},
		"Value":       {"org", "list", "-o", "postgres://u:" + secret + "@localhost/x"},
		"Pairs":       {"migrate", "up", "host=localhost password=" + secret},
		"JSON":        {"org", "list", `{"token": "` + secret + `"}`},
		"Project":     {"project", "show", "postgres://u:" + secret + "@localhost/x"},
		"ID":          {"deployment", "show", "postgres://u:" + secret + "@localhost/x"},
		"Unreachable": {"org", "list", "--database-url", "postgres://u:" + secret + "@127.0.0.1:1/x"},
		"Broken":      {"org", "list", "--database-url", "postgres://u:" + secret + "@127.0.0.1:port/x"},
	}
	for name, args := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := worker(t.Context(), nil, args...)
			require.NotZero(t, r.status)
			require.NotContains(t, r.stdout+r.stderr, secret)
		})
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	r := worker(t.Context(), map[string]string{"DATABASE_URL": "postgres://u:pw@127.0.0.1:1/nowhere"}, "deployment", "list")
	require.Equal(t, exitFailed, r.status)
	require.Contains(t, r.stderr, `127.0.0.1:1`)
	require.Contains(t, r.stderr, `"nowhere"`)
	require.Equal(t, 1, strings.Count(r.stderr, "\n"), r.stderr)
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := worker(ctx, b.env, "org", "list")
	require.Equal(t, exitFailed, r.status)
	require.Equal(t, 1, strings.Count(r.stderr, "\n"), r.stderr)
}
