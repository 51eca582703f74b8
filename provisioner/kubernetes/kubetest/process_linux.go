package kubetest

import "syscall"

// attributes have the system kill a process when its parent is gone: it may be stopped, and not see the end of its stdin.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
