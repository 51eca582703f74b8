package kuberun

import "syscall"

// attributes have the system kill a process when its parent is gone: it may be stopped, and not see the end of its stdin. What a terminal
// sends to the parent is not for it: the parent may have something to finish that needs it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
