//go:build !linux

package kubetest

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }
