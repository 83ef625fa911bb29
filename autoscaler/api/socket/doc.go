// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package socket is the Unix socket on which an autoscaler serves its API to its own
// user: its path, its creation such that no one else can plant or replace it,
// and the identity of its peers.
//
// File permissions decide who connects: the directory is the user's (0700), and
// so is the socket (0600). A group can be let in (0750 and 0660). The
// kernel's report on the peer (SO_PEERCRED, LOCAL_PEERCRED) is checked as well,
// in case a parent directory or a mount has other permissions than it seems.
package socket
