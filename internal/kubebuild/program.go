package kubebuild

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Env names a program that was built elsewhere, to be used as it is. None in its place says that there is to be none.
const (
	Env  = "BERTH_TESTKUBE"
	None = "none"
)

// Program returns the path of the program, which it builds first if it has to. It may be called by many processes at once; all but one
// wait then. The source is looked for in the directories above the working directory. The error is one line.
func Program(ctx context.Context, logf func(format string, args ...any)) (string, error) {
	if path := os.Getenv(Env); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%s: %w", Env, err)
		}
		return path, nil
	}
	s, err := find()
	if err != nil {
		return "", err
	}
	s.logf = logf
	path, err := s.program(ctx)
	if err != nil {
		return "", fmt.Errorf("build the control plane from %s (`make testkube`; the network is needed once): %w", s.dir, err)
	}
	return path, nil
}

var errNoSource = errors.New("no directory above the working directory has internal/testkube: run the tests in a checkout, or set " + Env)

func find() (*source, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	for {
		module := filepath.Join(dir, "internal", "testkube")
		if text, err := os.ReadFile(filepath.Join(module, "go.mod")); err == nil {
			flags, err := flagsOf(string(text))
			return &source{dir: module, flags: flags, cache: filepath.Join(cache, "berth", "testkube")}, err
		}
		above := filepath.Dir(dir)
		if above == dir {
			return nil, errNoSource
		}
		dir = above
	}
}

var kubernetesVersion = regexp.MustCompile(`(?m)^\tk8s\.io/kubernetes (v(\d+)\.(\d+)\.\S+)$`)

// flagsOf are those of the build. Kubernetes learns its own version from the linker only, and clients can not parse the one it has
// without. No -trimpath: without it the packages that the product's tests are built of too are built once.
func flagsOf(mod string) ([]string, error) {
	m := kubernetesVersion.FindStringSubmatch(mod)
	if m == nil {
		return nil, errors.New("the go.mod of testkube requires no k8s.io/kubernetes")
	}
	link := []string{"-s", "-w"}
	for i, name := range []string{"gitVersion", "gitMajor", "gitMinor"} {
		link = append(link, "-X k8s.io/component-base/version."+name+"="+m[i+1])
	}
	return []string{"-buildvcs=false", "-ldflags=" + strings.Join(link, " ")}, nil
}
