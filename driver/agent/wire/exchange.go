// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package wire

// Put is a value that processes of a ring exchange to connect, on its way from an agent to the leader.
type Put struct {
	// Scope and Key name the value; what they mean is the framework's.
	Scope string
	Key   string
	Value []byte
	// Size is how many values make the scope complete: the leader gives them out
	// when it has that many. 0 means that the number is not known, and that each
	// value is given out as it comes.
	Size int
}

// Fill is what the leader gives out about one scope.
type Fill struct {
	Scope  string
	Values map[string][]byte
	// Complete reports that Values has all values of the scope.
	Complete bool
	// Hosts are the hosts it is for, sorted; nil means all of the ring.
	Hosts []string
}

// Snapshot is all a new leader needs to know of what one agent's processes have exchanged.
type Snapshot struct {
	// Puts are all local values that the leader has to have, those sent before
	// among them.
	Puts []Put
	// Released are the scopes whose values this agent's processes may have read.
	Released []string
}
