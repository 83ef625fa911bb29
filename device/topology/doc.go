// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package topology describes how the GPUs of one machine are linked, and what
// follows from it: islands, peer access, bisection bandwidth. It is pure: what
// was read from the machine goes in, answers come out; it does no I/O and has no
// clock.
//
//	    ports of each GPU          path of each pair
//	(to a GPU, to an NVSwitch)   (PCIe levels, peer access)
//	            └────────────┬────────────┘
//	                      Matrix
//	   ┌─────────────┬───────┴─────┬─────────────┐
//	Islands        Joined      Bisection      Encode
//
// # NVSwitch
//
// A GPU on an NVSwitch board has no NVLink that ends at another GPU: all its
// links end at switches. Every two GPUs of the same fabric then communicate at the
// full rate of their ports, but only one pair at a time can have all of it. So
// a pair through a switch counts as min(ports, ports) links (this is what
// nvidia-smi shows as NV18), whereas the bandwidth of a set is counted by its
// ports and never by the sum over its pairs.
//
// # Words
//
// An island is a set of GPUs that are connected by NVLinks, directly or over other
// GPUs of the set or through NVSwitch. A GPU without NVLinks is an island of one.
package topology
