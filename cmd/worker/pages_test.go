package main

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pages are all that people read, by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		raw, err := os.ReadFile(path)
		all[path] = string(raw)
		return err
	}))
	require.Contains(t, all, "../../README.md")
	require.Contains(t, all, "../../docs/adr/0001-jobs-are-wake-ups.md")
	return all
}

var (
	linkForm    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headingForm = regexp.MustCompile(`(?m)^#+ (.*)$`)
	slugForm    = regexp.MustCompile("[^a-z0-9 _-]")
)

// headings of a page, as links name them.
func headings(page string) (slugs []string) {
	for _, m := range headingForm.FindAllStringSubmatch(blockForm.ReplaceAllString(page, ""), -1) {
		slugs = append(slugs, strings.ReplaceAll(slugForm.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return slugs
}

// What a page links to is there, headings included.
func TestPagesLinkToWhatIsThere(t *testing.T) {
	t.Parallel()
	all := pages(t)
	links, within := 0, 0
	for path, page := range all {
		for _, m := range linkForm.FindAllStringSubmatch(blockForm.ReplaceAllString(page, ""), -1) {
			to, heading, named := strings.Cut(m[1], "#")
			if strings.Contains(to, ":") {
				continue // on the network
			}
			links++
			target := path
			if to != "" {
				target = filepath.Join(filepath.Dir(path), to)
			}
			_, err := os.Stat(target)
			require.NoError(t, err, "linked by %s", path)
			if named {
				within++
				require.Contains(t, headings(all[target]), heading, "linked by %s", path)
			}
		}
	}
	require.Positive(t, links)
	require.Positive(t, within)
}

var testForm = regexp.MustCompile("`((?:Test|Fuzz|Example)\\w*)`")

// What a page says is tested has a test of that name.
func TestPagesNameTestsThatThereAre(t *testing.T) {
	t.Parallel()
	code := ""
	require.NoError(t, filepath.WalkDir("../..", func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		raw, err := os.ReadFile(path)
		code += string(raw)
		return err
	}))
	named := 0
	for path, page := range pages(t) {
		for _, m := range testForm.FindAllStringSubmatch(page, -1) {
			if m[1] == "TestMain" {
				continue // of every package
			}
			named++
			require.Contains(t, code, "\nfunc "+m[1]+"(", "named by %s", path)
		}
	}
	require.Positive(t, named)
}

// under returns the text under each heading of the third level below one of the second.
func under(t *testing.T, page, heading string) map[string]string {
	t.Helper()
	_, rest, found := strings.Cut(page, "\n## "+heading+"\n")
	require.True(t, found, heading)
	rest, _, _ = strings.Cut(rest, "\n## ")
	out := map[string]string{}
	for _, part := range strings.Split(rest, "\n### ")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		out[name] = text
	}
	return out
}

var (
	alertForm  = regexp.MustCompile(`(?m)^\| \[(\w+)\]\(#(\w+)\) \|`)
	metricForm = regexp.MustCompile(`\bberth_\w+`)
)

// The runbook says of every reason that the code gives what it means, where to look and what to do, of every
// alert what to do, and of every check of /readyz. What alerts are made of is shown.
func TestRunbook(t *testing.T) {
	t.Parallel()
	page := pages(t)["../../docs/runbook.md"]
	told := under(t, page, "Reasons")
	require.Equal(t, slices.Sorted(maps.Keys(reasons)), slices.Sorted(maps.Keys(told)), "docs/runbook.md has a heading for each reason of matter.go, and no other")
	for reason, text := range told {
		for _, part := range []string{"**Means**: ", "**Look**: ", "**Do**: "} {
			require.Equal(t, 1, strings.Count(text, part), "%s: %s", reason, part)
		}
	}
	alerts := under(t, page, "Alerts")
	var listed []string
	for _, m := range alertForm.FindAllStringSubmatch(page, -1) {
		require.Equal(t, strings.ToLower(m[1]), m[2])
		listed = append(listed, m[1])
	}
	slices.Sort(listed)
	require.Equal(t, listed, slices.Sorted(maps.Keys(alerts)))
	metrics := pages(t)["../../docs/metrics.md"]
	used := metricForm.FindAllString(page, -1)
	require.NotEmpty(t, used)
	for _, m := range used {
		require.Contains(t, metrics, "`"+m+"`", "docs/metrics.md does not have it")
	}
	_, checks, found := strings.Cut(metrics, "| check | fails when |\n|---|---|\n")
	require.True(t, found)
	checks, _, _ = strings.Cut(checks, "\n\n")
	var checked []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(checks, -1) {
		checked = append(checked, m[1])
	}
	slices.Sort(checked)
	require.Equal(t, checked, slices.Sorted(maps.Keys(under(t, page, "Readiness"))))
}
