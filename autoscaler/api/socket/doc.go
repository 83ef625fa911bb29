// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package socket provides the Unix socket on which an autoscaler serves its API to
// its own user. It chooses the path, creates the socket so that no one else can
// plant or replace it, and identifies the peers.
//
// File permissions decide who may connect. The directory (0700) and the socket
// (0600) belong to the user; a group can be admitted (0750 and 0660). In case a
// parent directory or a mount changes the effective permissions, the peer that the
// kernel reports (SO_PEERCRED, LOCAL_PEERCRED) is checked as well.
package socket
