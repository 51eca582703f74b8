package kubebuild

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"berth/internal/filelock"
)

// kept is how many programs stay in the cache: other checkouts may use other ones.
const kept = 3

// source is a module of one program, and where what was built of it is kept.
//
//	cache/lock             held by who builds
//	cache/DIGEST/testkube  the program, whole from the moment that it is there
type source struct {
	dir   string
	flags []string
	cache string
	env   []string // beside that of this process
	logf  func(format string, args ...any)
}

func (s *source) program(ctx context.Context) (string, error) {
	digest, err := s.digest()
	if err != nil {
		return "", err
	}
	path := filepath.Join(s.cache, digest, "testkube")
	if s.have(path) {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	held, err := filelock.Lock(ctx, filepath.Join(s.cache, "lock"), func() { s.logf("waiting for another process that builds the control plane") })
	if err != nil {
		return "", err
	}
	defer func() { _ = held.Close() }() // gives it back
	if s.have(path) {                   // built while we waited
		return path, nil
	}
	begun := time.Now()
	s.logf("building the control plane: minutes if nothing of it is in Go's build cache")
	if err := s.build(ctx, path); err != nil {
		return "", err
	}
	s.logf("built %s in %v", path, time.Since(begun).Round(time.Second))
	s.prune(digest)
	return path, nil
}

// have says whether the program is there. It is marked as used.
func (s *source) have(path string) bool {
	now := time.Now()
	return os.Chtimes(path, now, now) == nil
}

// digest is of all that the program is made of.
func (s *source) digest() (string, error) {
	files, err := filepath.Glob(filepath.Join(s.dir, "*.go"))
	if err != nil {
		return "", err
	}
	files = slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
	files = append(files, filepath.Join(s.dir, "go.mod"), filepath.Join(s.dir, "go.sum"))
	slices.Sort(files)
	sum := sha256.New()
	part := func(text []byte) { fmt.Fprintf(sum, "%d\n%s", len(text), text) }
	part([]byte(strings.Join(append([]string{runtime.Version(), runtime.GOOS, runtime.GOARCH}, s.flags...), "\n")))
	for _, f := range files {
		text, err := os.ReadFile(f)
		if errors.Is(err, os.ErrNotExist) {
			continue // a module that needs no other has no go.sum
		}
		if err != nil {
			return "", err
		}
		part([]byte(filepath.Base(f)))
		part(text)
	}
	return hex.EncodeToString(sum.Sum(nil))[:20], nil
}

func (s *source) build(ctx context.Context, path string) error {
	half := path + ".half"
	args := append([]string{"build", "-o", half}, s.flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, ".")...)
	cmd.Dir = s.dir
	// What is set for the product's build, as the race detector, is not for this one.
	cmd.Env = append(append(os.Environ(), "GOFLAGS=", "GOWORK=off", "PWD="+s.dir), s.env...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		s.logf("go %s: %v\n%s", strings.Join(cmd.Args[1:], " "), err, out.String())
		return errors.Join(context.Cause(ctx), fmt.Errorf("%w: %s", err, complaint(out.String())))
	}
	return os.Rename(half, path)
}

// complaint is the first line of Go's output that says what is wrong.
func complaint(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for _, l := range lines {
		if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "#") && !strings.HasPrefix(l, "go: downloading ") {
			return l
		}
	}
	return "it said nothing"
}

// prune removes the programs that have not been used for longest. Who runs one keeps it until it ends.
func (s *source) prune(mine string) {
	type program struct {
		dir  string
		used time.Time
	}
	var all []program
	entries, _ := os.ReadDir(s.cache)
	for _, e := range entries {
		if !e.IsDir() || e.Name() == mine {
			continue
		}
		p := program{dir: filepath.Join(s.cache, e.Name())}
		if info, err := os.Stat(filepath.Join(p.dir, "testkube")); err == nil {
			p.used = info.ModTime()
		} else if info, err := e.Info(); err == nil {
			p.used = info.ModTime()
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b program) int { return cmp.Or(b.used.Compare(a.used), cmp.Compare(a.dir, b.dir)) })
	for _, p := range all[min(kept-1, len(all)):] {
		if err := os.RemoveAll(p.dir); err != nil {
			s.logf("an old program stays: %v", err)
		}
	}
}
