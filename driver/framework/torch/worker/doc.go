// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package worker is the agent's side of the worker protocol, by which the package
// kolo.torch in a training process asks for its place in the process group.
//
//	training process ──hello, ready, formed, progress──> Server ──> Handler
//	                 <──welcome, place, change, broken──    │        (agent)
//	                                                        └ one port per slot
//
// # The protocol, version 1
//
// The protocol uses one TCP connection over loopback, which stays open. Messages
// are JSON objects, one per line of at most 64 KiB. Unknown types and fields are
// ignored. A generation is the number of a ring (a process group) and grows.
//
//	from the process
//	  hello     version, secret, client, torch (its version), ends   first of all
//	  ready     generation: the one it has left, 0 at first; reason
//	  formed    generation: the group is connected
//	  progress  generation, and what a line of the progress file has
//
//	to the process
//	  welcome   version                                        the answer to hello
//	  error     message; the connection ends
//	  place     generation, rank, size, …, newcomers           the answer to ready
//	  change    generation: leave the group at the next commit
//	  broken    generation: the group has lost a member
//	  batch     keep: whether the process must not adapt its batch
//	  end       generation: the answer to ready if there is no next place; sent only
//	            to a process with ends in its hello
//
// The answer to ready may take hours. The end of a connection means nothing; only
// the process's exit counts. A new connection replaces the old one, and a repeated
// ready gets the same answer.
//
// # Who is answered
//
// The server answers processes of the task (package gate) that know the slot's
// secret. It bounds the length and rate of their messages, so that one process
// costs its agent little.
package worker
