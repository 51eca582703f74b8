//go:build unix && !aix && !solaris

package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is whom the server runs as.
type account struct {
	name     string
	uid, gid int
	drop     bool // it is not this process's own
}

// serverAccount is our own account, or an unprivileged one when we are root, which Postgres refuses.
func serverAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{name: "this user", uid: os.Geteuid(), gid: os.Getegid()}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, e1 := strconv.Atoi(u.Uid)
		gid, e2 := strconv.Atoi(u.Gid)
		if e1 == nil && e2 == nil && uid != 0 {
			return account{name: name, uid: uid, gid: gid, drop: true}, nil
		}
	}
	return account{}, errors.New("root may not run Postgres, and there is no user postgres or nobody to run it as: " +
		"run this as another user, or set DATABASE_URL to a server that runs already")
}

// command prepares a program to run as the account, with a clean environment and in a session of its own: a Ctrl-C in the
// terminal is for us, not for the server.
func (a account) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if a.drop {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid), Groups: []uint32{}}
	}
	return cmd
}

// canEnter says whether the account can reach a directory of ours; the home of root, for one, is closed to it.
func (a account) canEnter(dir string) error {
	for d := dir; a.drop; d = filepath.Dir(d) {
		info, err := os.Stat(d)
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		open := info.Mode().Perm()&0o001 != 0 || int(st.Uid) == a.uid && info.Mode().Perm()&0o100 != 0 ||
			int(st.Gid) == a.gid && info.Mode().Perm()&0o010 != 0
		if !open {
			return fmt.Errorf("the user %s, whom the server runs as, cannot enter %q: choose another directory, or set %s to one", a.name, d, HomeEnv)
		}
		if d == filepath.Dir(d) {
			break
		}
	}
	return nil
}
