// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package tcpstore serves the wire protocol of PyTorch's TCPStore to the process of one
// slot, on a loopback port of its own. The process connects as a client (is_master=False).
// It may use libuv or not, because that changes only PyTorch's server. Package store
// implements the operations.
//
//	process ── TCP ──> gate ──> Server ──> connection ── Op ──> Store
//	                  refused: reset
//
// # Protocol
//
// This is the protocol of PyTorch 2.2 to 2.10: torch/csrc/distributed/c10d/TCPStore.cpp
// (the client), TCPStoreBackend.hpp (numbers), TCPStoreLibUvBackend.cpp (a server's
// answers). A request is a byte for the command, followed by its fields. Integers are
// little-endian; a string is its length in 8 bytes and its bytes; a list is its length in 8
// bytes and its elements.
//
//	command          fields                     answer
//	 0 VALIDATE      4 bytes, 0x3C85F7CE        none; the first request
//	 1 SET           key, value                 none
//	 2 COMPARE_SET   key, expected, value       value
//	 3 GET           key                        value, empty if there is none
//	 4 ADD           key, 8 bytes               8 bytes
//	 5 CHECK         keys                       0 if all are there, 1 if not
//	 6 WAIT          keys                       0 when all are there
//	 7 GETNUMKEYS                               8 bytes
//	 8 DELETE_KEY    key                        8 bytes: how many there were
//	 9 APPEND        key, value                 none
//	10 MULTI_GET     keys                       values, without their number
//	11 MULTI_SET     keys and values in turn    none
//	12 CANCEL_WAIT                              1
//	13 PING          4 bytes                    the same
//	14 QUEUE_PUSH    key, value                 none
//	15 QUEUE_POP     key                        8 bytes: how many there were; the first
//	16 QUEUE_LEN     key                        8 bytes
//	17 LIST_KEYS                                keys
//	18 BARRIER       key, 8 bytes               0 when so many have come
//
// While a client waits for an answer, it may send only CANCEL_WAIT. After that it reads the
// answer of the wait, if it was sent already, and the answer of CANCEL_WAIT. A blocking pop
// is WAIT and QUEUE_POP. If another process pops first, this server makes the pop wait
// again, so the client needs no second try.
//
// # Which requests wait, and when connections end
//
// VALIDATE and PING are answered at once. Everything else waits until the process has a
// place in a ring. From then on the connection belongs to that ring: when the ring ends,
// pending waits and later requests reset the connection. A connection may be idle for any
// time. A connection that violates the protocol or a bound is reset.
package tcpstore
