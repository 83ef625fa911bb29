// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package topology describes how the GPUs of one machine are linked, and computes
// islands, peer access and bisection bandwidth from that. It is pure: it works on
// facts that others have read from the machine, does no I/O and has no clock.
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
// A GPU on an NVSwitch board has no NVLink that ends at another GPU: all its links
// end at switches. Any two GPUs of the same fabric can communicate at the full rate
// of their ports, but only one pair at a time can use all of it. So a pair through
// a switch counts as min(ports, ports) links (which nvidia-smi shows as NV18),
// while the bandwidth of a set is computed from its ports and never as the sum over
// its pairs.
//
// # Vocabulary
//
// An island is a set of GPUs that NVLinks connect, directly, through other GPUs of
// the set or through NVSwitch. A GPU without NVLinks is an island of one.
package topology
