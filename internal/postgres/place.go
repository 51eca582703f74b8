//go:build unix && !aix && !solaris

package postgres

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// maxSocketDir is how long a directory may be to hold a socket: its address is 104 bytes on macOS, name and NUL included.
const maxSocketDir = 103 - len("/.s.PGSQL.5432")

// home is where clusters and downloads are kept: BERTH_HOME, else below the user's own data.
func home() (string, error) {
	if dir := os.Getenv(HomeEnv); dir != "" {
		return filepath.Abs(dir)
	}
	if os.Geteuid() == 0 { // the home of root is closed to the user whom the server runs as
		return "/var/lib/berth", nil
	}
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "berth"), nil
	}
	dir, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no directory for Postgres: %w: set %s to one", err, HomeEnv)
	}
	return filepath.Join(dir, ".local", "share", "berth"), nil
}

// base is the directory of the cluster that the options ask for; it exists afterwards.
func base(o Options, home string) (string, error) {
	dir := home
	if o.Dir != "" {
		var err error
		if dir, err = filepath.Abs(o.Dir); err != nil {
			return "", fmt.Errorf("directory of Postgres: %w", err)
		}
	} else if !o.Durable && os.Getenv(HomeEnv) == "" {
		if m := memory(); m != "" {
			return m, nil
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("directory of Postgres: %w: set %s to one that can be written", err, HomeEnv)
	}
	return dir, nil
}

// checkSocketDir says whether a socket in the directory could be reached.
func checkSocketDir(dir string) error {
	switch {
	case len(dir) > maxSocketDir:
		return fmt.Errorf("%q is too long for a unix socket, at most %d bytes: choose a shorter directory, or set %s to one", dir, maxSocketDir, HomeEnv)
	case strings.ContainsAny(dir, ",\n"):
		return fmt.Errorf("%q cannot be the directory of a unix socket, because of the comma or line break in it: choose another, or set %s to one", dir, HomeEnv)
	}
	return nil
}
