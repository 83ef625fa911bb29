// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package hostnet

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Horovod 0.23 to 0.28 builds the second half of its meshes, those of process set 0,
// without the interface it was given (InitializeForProcessSet in
// horovod/common/gloo/gloo_context.cc reads a member that is never set). Gloo then listens
// at the address that the machine's own name resolves to, which on many machines is
// 127.0.0.1 or 127.0.1.1, so no ring forms across hosts. On such machines slots get a UTS
// namespace whose host name is the right address itself.

// NameFor returns the host name to give to slots so that it resolves to the host's service
// address. The result is empty if the machine's own name already resolves to that address.
func NameFor(addr string) string {
	ip, _, err := net.SplitHostPort(addr)
	if err != nil || net.ParseIP(ip) == nil {
		return ""
	}
	if found := OwnAddresses(); len(found) > 0 && !slices.ContainsFunc(found, func(f string) bool { return f != ip }) {
		return ""
	}
	return ip
}

// OwnAddresses returns the addresses that the machine's own name resolves to. It returns
// none if Go's resolver, which does not use the name service switch, finds none.
func OwnAddresses() []string {
	name, err := os.Hostname()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	found, err := net.DefaultResolver.LookupHost(ctx, name)
	if err != nil {
		return nil
	}
	return found
}

// SetName gives the calling thread, and the processes that it starts, a host name of their
// own.
func SetName(name string) error {
	if name == "" {
		return nil
	}
	err := unix.Unshare(unix.CLONE_NEWUTS)
	if err == nil {
		err = unix.Sethostname([]byte(name))
	}
	if err != nil {
		own, _ := os.Hostname()
		return fmt.Errorf("this machine's name %q does not resolve to %s, and the task may not change its own (%w): "+
			"Gloo will not connect to other hosts; add \"%s %s\" to /etc/hosts", own, name, err, name, own)
	}
	return nil
}

// MayRename reports whether this process may give its child processes another host name.
func MayRename() bool {
	may := make(chan bool)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		may <- unix.Unshare(unix.CLONE_NEWUTS) == nil
	}()
	return <-may
}
