//go:build unix && !aix && !solaris

package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// installed are the directories in which packages put the server.
var installed = []string{
	"/usr/lib/postgresql/*/bin",                          // Debian, Ubuntu
	"/usr/pgsql-*/bin",                                   // Fedora, RHEL
	"/opt/homebrew/opt/postgresql@*/bin",                 // Homebrew on Apple silicon
	"/usr/local/opt/postgresql@*/bin",                    // Homebrew on Intel
	"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",    // Homebrew on Linux
	"/Applications/Postgres.app/Contents/Versions/*/bin", // Postgres.app
	"/Library/PostgreSQL/*/bin",                          // EDB's installer
}

// remedy is what a person can do when there is no server.
const remedy = "install one (Debian, Ubuntu: apt-get install postgresql; macOS: brew install postgresql@17), " +
	"set " + BinEnv + " to the directory of its programs, or set DATABASE_URL to a server that runs already"

// probeTimeout bounds one look at a candidate: a wrapper that hangs must not hold everything up.
const probeTimeout = 5 * time.Second

var versionForm = regexp.MustCompile(`PostgreSQL\) (\d+)`)

// binaries is a directory that holds initdb and postgres.
type binaries struct {
	dir    string
	major  int
	source string // how it was found
}

// finder looks for server binaries. Its fields are what a test replaces.
type finder struct {
	env        func(string) string
	installed  []string
	as         account
	cache      string // directory of downloads
	repository string // to download from, empty for the usual one
	bound      time.Duration
}

// find returns the first usable server: the configured directory, PATH, pg_config, the known directories (newest first), an
// earlier download, and at last a new one.
func (f *finder) find(ctx context.Context) (binaries, error) {
	if dir := f.env(BinEnv); dir != "" {
		b, err := f.probe(ctx, dir, BinEnv)
		if err != nil {
			return b, fmt.Errorf("%s is %q: %w: it has to be the directory with initdb and postgres of version %d or newer", BinEnv, dir, err, MinMajor)
		}
		return b, nil
	}
	var faults []string
	var newest binaries
	look := func(dir, source string) bool {
		b, err := f.probe(ctx, dir, source)
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			faults = append(faults, err.Error())
		case err == nil && b.major > newest.major:
			newest = b
		}
		return err == nil
	}
	if program := f.which("postgres"); program != "" && look(filepath.Dir(program), "PATH") {
		return newest, nil
	}
	if program := f.which("pg_config"); program != "" {
		if out, err := f.output(ctx, program, "--bindir"); err == nil && look(strings.TrimSpace(out), "pg_config") {
			return newest, nil
		}
	}
	for _, sets := range [][]string{f.installed, {filepath.Join(f.cache, "*", "bin")}} {
		for _, pattern := range sets {
			dirs, _ := filepath.Glob(pattern) // the patterns are ours and well-formed
			for _, dir := range dirs {
				look(dir, "installed")
			}
		}
		if newest.major > 0 {
			return newest, nil
		}
	}
	if err := ctx.Err(); err != nil {
		return binaries{}, err
	}
	b, err := f.download(ctx)
	if err != nil {
		faults = append(faults, err.Error())
		return b, fmt.Errorf("%w (%s): %s", ErrNotFound, strings.Join(slices.Compact(faults), "; "), remedy)
	}
	return b, nil
}

// which finds a program on PATH. Not exec.LookPath, which knows only this process's own environment.
func (f *finder) which(name string) string {
	for _, dir := range filepath.SplitList(f.env("PATH")) {
		p := filepath.Join(cmp.Or(dir, "."), name)
		if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return p
		}
	}
	return ""
}

// probe looks whether a directory holds a server that the account can run.
func (f *finder) probe(ctx context.Context, dir, source string) (binaries, error) {
	// A link from a directory of links has to be followed, or the server would look for its own files beside the link.
	server, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres"))
	if err != nil {
		return binaries{}, err
	}
	if server, err = filepath.Abs(server); err != nil {
		return binaries{}, err
	}
	b := binaries{dir: filepath.Dir(server), source: source}
	if _, err := os.Stat(filepath.Join(b.dir, "initdb")); err != nil {
		return binaries{}, err
	}
	out, err := f.output(ctx, server, "--version")
	if err != nil {
		return binaries{}, fmt.Errorf("%s: %w", b.dir, err)
	}
	m := versionForm.FindStringSubmatch(out)
	if m == nil {
		return binaries{}, fmt.Errorf("%s: not a version of Postgres: %q", b.dir, strings.TrimSpace(out))
	}
	b.major, _ = strconv.Atoi(m[1]) // digits
	if b.major < MinMajor {
		return binaries{}, fmt.Errorf("%s: version %d is older than %d", b.dir, b.major, MinMajor)
	}
	return b, nil
}

// output runs a program as the server's account, so that one which only root can reach is not taken.
func (f *finder) output(ctx context.Context, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, errors.New("no answer from "+program))
	defer cancel()
	cmd := f.as.command(ctx, program, args...)
	cmd.WaitDelay = time.Second
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if cause := context.Cause(ctx); cause != nil && errors.As(err, &exit) {
			return "", cause
		}
		return "", err
	}
	return stdout.String(), nil
}
