// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package wire

// Put is a message from an agent to the leader with one of the values that the processes of
// a ring exchange to connect.
type Put struct {
	// Scope and Key name the value; the framework defines their meaning.
	Scope string
	Key   string
	Value []byte
	// Size is how many values make the scope complete. The leader sends them out once it
	// has that many. 0 means that the number is unknown, and that each value is sent out as
	// it arrives.
	Size int
}

// Fill is a message from the leader to agents with the values of one scope. A scope is a
// group of values that processes need together.
type Fill struct {
	Scope  string
	Values map[string][]byte
	// Complete states that Values has all values of the scope.
	Complete bool
	// Hosts are the hosts to send it to, sorted; nil means all hosts of the ring.
	Hosts []string
}

// Snapshot holds everything that a new leader needs from one agent to continue an exchange.
type Snapshot struct {
	// Puts are all local values that the leader needs, including those sent before.
	Puts []Put
	// Released are the scopes whose values this agent's processes may have read.
	Released []string
}
