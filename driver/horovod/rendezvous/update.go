// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous

// Put is a value on its way from an agent to the leader.
type Put struct {
	// Scope is the Horovod scope, followed by a slash and a number when a
	// scope of that name is used again in one generation (see Store.Delete).
	Scope string
	Key   string
	Value []byte
	// Size is the number of members of a mesh: the leader gives its blobs out
	// when it has that many. 0 means that nobody knows, and that each value
	// is given out as it comes.
	Size int
}

// Fill is what the leader gives out about one scope.
type Fill struct {
	Scope  string
	Values map[string][]byte
	// Complete says that Values has the blobs of all members.
	Complete bool
	// Hosts are the hosts it is for, sorted; nil means all of the ring.
	Hosts []string
}

// Snapshot is all a new leader needs to know of one agent's Store.
type Snapshot struct {
	// Puts are all local values that the leader has to have, those handed
	// out before among them.
	Puts []Put
	// Released are the scopes whose blobs this agent's slots may have read.
	Released []string
}
