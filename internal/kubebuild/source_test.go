package kubebuild

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/internal/filelock"
)

const workerEnv = "BERTH_KUBEBUILD_TEST_DIR" // makes this program one that wants the program of a module, as a test process does

func TestMain(m *testing.M) {
	if dir := os.Getenv(workerEnv); dir != "" {
		s := source{dir: filepath.Join(dir, "source"), cache: filepath.Join(dir, "cache")}
		s.logf = func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
		path, err := s.program(context.Background())
		fmt.Println(path, err)
		return
	}
	os.Exit(m.Run())
}

// small is a module whose program says a word.
func small(t *testing.T, word string) (dir string, s *source) {
	t.Helper()
	dir = t.TempDir()
	s = &source{dir: filepath.Join(dir, "source"), cache: filepath.Join(dir, "cache"), logf: t.Logf}
	require.NoError(t, os.Mkdir(s.dir, 0o700))
	write(t, s, "go.mod", "module small\n\ngo 1.26\n")
	write(t, s, "main.go", "package main\n\nfunc main() { println(\""+word+"\") }\n")
	return dir, s
}

func write(t *testing.T, s *source, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600))
}

func says(t *testing.T, path string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), path).CombinedOutput()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

func TestBuiltWhenTheSourceChanges(t *testing.T) {
	t.Parallel()
	_, s := small(t, "one")
	built := 0
	s.logf = func(format string, _ ...any) {
		if strings.HasPrefix(format, "built") {
			built++
		}
	}
	first, err := s.program(t.Context())
	require.NoError(t, err)
	require.Equal(t, "one", says(t, first))
	again, err := s.program(t.Context())
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.Equal(t, 1, built)

	write(t, s, "main_test.go", "package main")
	again, err = s.program(t.Context())
	require.NoError(t, err)
	require.Equal(t, first, again, "tests are no part of the program")

	write(t, s, "main.go", "package main\n\nfunc main() { println(\"two\") }\n")
	second, err := s.program(t.Context())
	require.NoError(t, err)
	require.Equal(t, "two", says(t, second))
	require.Equal(t, "one", says(t, first), "another checkout may use it")
	require.Equal(t, 2, built)
}

func TestBuiltOnceByManyProcesses(t *testing.T) {
	t.Parallel()
	dir, _ := small(t, "one")
	self, err := os.Executable()
	require.NoError(t, err)
	var wg sync.WaitGroup
	var built atomic.Int32
	for range 4 {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), self)
			cmd.Env = append(os.Environ(), workerEnv+"="+dir)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "<nil>") {
				t.Errorf("%v: %s", err, out)
			}
			if strings.Contains(string(out), "built ") {
				built.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, built.Load())
}

func TestNoNetwork(t *testing.T) {
	t.Parallel()
	dir, s := small(t, "one")
	write(t, s, "go.mod", "module small\n\ngo 1.26\n\nrequire example.test/other v1.0.0\n")
	const sum = " h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n"
	write(t, s, "go.sum", "example.test/other v1.0.0"+sum+"example.test/other v1.0.0/go.mod"+sum)
	write(t, s, "main.go", "package main\n\nimport _ \"example.test/other\"\n\nfunc main() {}\n")
	s.env = []string{"GOPROXY=off", "GOMODCACHE=" + filepath.Join(dir, "none")}
	_, err := s.program(t.Context())
	require.ErrorContains(t, err, "GOPROXY=off")
	require.NotContains(t, err.Error(), "\n")
	_, err = s.program(t.Context())
	require.Error(t, err, "what failed left nothing that looks like a program")
}

func TestWaitsNoLongerThanAsked(t *testing.T) {
	t.Parallel()
	_, s := small(t, "one")
	require.NoError(t, os.Mkdir(s.cache, 0o700))
	held, err := filelock.Lock(t.Context(), filepath.Join(s.cache, "lock"), nil)
	require.NoError(t, err)
	impatient := errors.New("no patience")
	ctx, cancel := context.WithCancelCause(t.Context())
	s.logf = func(format string, _ ...any) {
		if strings.HasPrefix(format, "waiting") {
			cancel(impatient)
		}
	}
	_, err = s.program(ctx)
	require.ErrorIs(t, err, impatient)
	require.NoError(t, held.Close())
	_, err = s.program(t.Context())
	require.NoError(t, err)
}

func TestPrune(t *testing.T) {
	t.Parallel()
	_, s := small(t, "one")
	var dirs []string
	for i := range kept + 2 {
		path := filepath.Join(s.cache, fmt.Sprint("old", i), "testkube")
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		at := time.Now().Add(time.Duration(i-100) * time.Hour)
		require.NoError(t, os.Chtimes(path, at, at))
		dirs = append(dirs, filepath.Dir(path))
	}
	mine, err := s.program(t.Context())
	require.NoError(t, err)
	left, err := filepath.Glob(filepath.Join(s.cache, "*", "testkube"))
	require.NoError(t, err)
	require.ElementsMatch(t, []string{mine, filepath.Join(dirs[kept], "testkube"), filepath.Join(dirs[kept+1], "testkube")}, left)
}

func TestFlags(t *testing.T) {
	t.Parallel()
	s, err := find()
	require.NoError(t, err)
	require.Contains(t, strings.Join(s.flags, " "), "version.gitVersion=v1.")
	_, err = flagsOf("module other\n")
	require.ErrorContains(t, err, "requires no k8s.io/kubernetes")
}
