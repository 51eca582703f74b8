package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"berth/lifecycle"
)

var (
	reasonForm   = regexp.MustCompile(`^[A-Z][a-z]+([A-Z][a-z]*)*$`)
	inSQL        = regexp.MustCompile(`(?i)\breason\s*=\s*[^,;\n]*`)
	quotedInSQL  = regexp.MustCompile(`'([A-Z][A-Za-z]+)'`)
	saysReason   = func(e ast.Expr) bool { return e != nil && strings.Contains(strings.ToLower(nameOf(e)), "reason") }
	fakeBackends = []string{"provisionertest", "testdata", "dbsqlc"}
)

// nameOf is the last name of an expression: of a variable, a field, a function, a key.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.BasicLit:
		return e.Value
	case *ast.CallExpr: // one of several: cmp.Or(reason, ...)
		for _, arg := range e.Args {
			if name := nameOf(arg); strings.Contains(strings.ToLower(name), "reason") {
				return name
			}
		}
	case *ast.IndexExpr:
		return nameOf(e.X)
	case *ast.SliceExpr:
		return nameOf(e.X)
	}
	return ""
}

// reasonsIn finds the reasons that a file can give: what is written where a reason is named.
func reasonsIn(t *testing.T, path string, found map[string]string) {
	t.Helper()
	add := func(e ast.Expr) {
		if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if word, err := strconv.Unquote(l.Value); err == nil && reasonForm.MatchString(word) {
				found[word] = path
			}
		}
	}
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	require.NoError(t, err)
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if saysReason(n.Key) {
				add(n.Value)
			}
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if saysReason(left) && i < len(n.Rhs) {
					add(n.Rhs[i])
				}
			}
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if saysReason(name) && i < len(n.Values) {
					add(n.Values[i])
				}
			}
		case *ast.CallExpr:
			if nameOf(n.Fun) == "explain" && len(n.Args) > 0 {
				add(n.Args[0])
			}
			if saysReason(n) {
				for _, arg := range n.Args {
					add(arg)
				}
			}
		}
		return true
	})
}

// TestReasons finds every reason that the engine, the backends and the database's functions can give, and has each explained, and
// nothing that none of them gives.
func TestReasons(t *testing.T) {
	t.Parallel()
	found := map[string]string{}
	for _, root := range []string{"../../reconcile", "../../provisioner", "../../fleet", "../../db"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			switch {
			case os.IsNotExist(err):
				return nil
			case err != nil:
				return err
			case d.IsDir() && slices.Contains(fakeBackends, d.Name()):
				return filepath.SkipDir
			case strings.HasSuffix(path, ".sql"):
				raw, err := os.ReadFile(path)
				for _, said := range inSQL.FindAllString(string(raw), -1) {
					for _, word := range quotedInSQL.FindAllStringSubmatch(said, -1) {
						found[word[1]] = path
					}
				}
				return err
			case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
				reasonsIn(t, path, found)
			}
			return nil
		})
		require.NoError(t, err)
	}
	for word, path := range found {
		require.Contains(t, reasons, word, "%s gives it: say in matter.go what it means and what a person can do", path)
	}
	require.Equal(t, slices.Sorted(maps.Keys(reasons)), slices.Sorted(maps.Keys(found)), "nothing gives the others any more")
	for word, m := range reasons {
		require.NotEmpty(t, m.words, word)
		require.NotEmpty(t, m.remedy, word)
	}
}

func TestMatter(t *testing.T) {
	t.Parallel()
	now := time.Now()
	past := now.Add(-time.Minute)
	id, owner := uuid.New(), uuid.New()
	at := func(missing bool, workers int64) provisioners {
		p := provisioners{}
		entry := p["static-eu"]
		entry.missing, entry.workers, entry.acting = missing, workers, workers
		p["static-eu"] = entry
		return p
	}
	up := at(false, 1)
	paused := provisioners{}
	entry := up["static-eu"]
	entry.paused = true
	paused["static-eu"] = entry
	waiting := provisioners{}
	entry = up["static-eu"]
	entry.acting = 0
	waiting["static-eu"] = entry
	ready := lifecycle.Resource{ID: id, Provisioner: "static-eu", Phase: "ready", DesiredPhase: "ready", ObservedGeneration: 1, Generation: 1}
	with := func(change func(*lifecycle.Resource)) lifecycle.Resource {
		r := ready
		change(&r)
		return r
	}
	waits := with(func(r *lifecycle.Resource) { r.Phase, r.Reason = "absent", "NoCapacity" })
	cases := map[string]struct {
		reason        string
		at            provisioners
		r             lifecycle.Resource
		words, remedy string
	}{
		"Ready":      {"nothing is the matter", up, ready, "", ""},
		"ReadyAlone": {"nor while nobody is there", at(true, 0), ready, "", ""},
		"Resize":     {"it is ready, and a resize waits", up, with(func(r *lifecycle.Resource) { r.Reason = "NoCapacity" }), "no room", "worker provisioner show static-eu"},
		"NoRoom":     {"its reason is explained", up, waits, "no room", "worker provisioner show static-eu"},
		"Missing":    {"what keeps it from being looked at comes first", at(true, 0), waits, "no live worker", "has static-eu configured"},
		"NoWorker":   {"also for a short while", at(false, 0), waits, "no worker that has", "start worker run"},
		"HandOver":   {"who is there may not work it", waiting, waits, "no worker that is up has its configuration that acts", "worker provisioner activate static-eu"},
		"Paused":     {"a pause is what it waits for", up, with(func(r *lifecycle.Resource) { r.Phase, r.PausedAt = "absent", &past }), "it is paused", "resource resume " + id.String()},
		"PausedAt":   {"also one of all that is there", paused, waits, "its provisioner is paused", "provisioner resume static-eu"},
		"Parked":     {"a stop is not held by it", paused, with(func(r *lifecycle.Resource) { r.Phase, r.DesiredPhase = "ready", "hibernated" }), "on its way", "nothing"},
		"GivenUp":    {"what was given up says why first", paused, with(func(r *lifecycle.Resource) { r.Phase, r.Reason, r.GivenUpAt = "absent", "NeverFits", &past }), "larger than every host", "--slots N"},
		"Unknown":    {"what could not be asked for is not told", nil, waits, "no room", "uncordon"},
		"Invalid":    {"names are filled in", up, with(func(r *lifecycle.Resource) { r.Phase, r.Reason = "absent", "Invalid" }), "can not be met", "deployment update " + owner.String()},
		"Lost":       {"also its own", up, with(func(r *lifecycle.Resource) { r.Phase, r.Reason = "unknown", "WorkerLost" }), "set aside", "resource reconcile " + id.String()},
		"Foreign":    {"a backend's own reason is not ours to explain", up, with(func(r *lifecycle.Resource) { r.Phase, r.Reason = "pending", "ImagePullBackOff" }), "says so", "see the message"},
		"New":        {"nobody looked", up, with(func(r *lifecycle.Resource) { r.Phase, r.ObservedGeneration = "unknown", 0 }), "looked at it yet", "by itself"},
		"OnItsWay":   {"all goes well", up, with(func(r *lifecycle.Resource) { r.Phase = "pending" }), "on its way", "nothing"},
		"Overdue":    {"or it did", up, with(func(r *lifecycle.Resource) { r.Phase, r.DeadlineAt = "pending", &past }), "deadline", "resource reconcile " + id.String()},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := c.at.of(c.r, &owner, now)
			require.Contains(t, m.words, c.words, c.reason)
			require.Contains(t, m.remedy, c.remedy, c.reason)
			require.Equal(t, c.words == "", m.words == "", c.reason)
			require.Equal(t, m.words == "", m.remedy == "", "what is the matter has a remedy")
		})
	}
}
