// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package socket

import "golang.org/x/sys/unix"

// credentials asks the kernel for the peer of a Unix socket.
func credentials(fd int) (Peer, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return Peer{}, err
	}
	return Peer{UID: int(cred.Uid), GID: int(cred.Gid), PID: int(cred.Pid)}, nil
}
