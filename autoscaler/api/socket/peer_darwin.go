// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package socket

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// credentials asks the kernel for the peer of a Unix socket. The first group of an
// xucred is the effective one. An answer without a group, or with an unknown
// layout, is an error, because its zeros would look like root.
func credentials(fd int) (Peer, error) {
	cred, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return Peer{}, err
	}
	if cred.Version != xucredVersion || cred.Ngroups < 1 {
		return Peer{}, fmt.Errorf("unknown credentials: version %d with %d groups", cred.Version, cred.Ngroups)
	}
	pid, err := unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	if err != nil {
		return Peer{}, err
	}
	return Peer{UID: int(cred.Uid), GID: int(cred.Groups[0]), PID: pid}, nil
}

// xucredVersion is XUCRED_VERSION of <sys/ucred.h>.
const xucredVersion = 0
