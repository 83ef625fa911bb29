// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous

import (
	"fmt"

	"github.com/kolo-nomad/kolo/driver/elastic"
)

// Assignment is a slot's place in a ring: the answer to rank_and_size.
//
// LocalRank and LocalSize count the slots of one host. CrossRank and CrossSize
// count the hosts that have a slot with the same LocalRank, so they differ between
// the slots of a host if hosts have unequal numbers of slots.
type Assignment elastic.Assignment

// removed is the answer for a slot without a place in the next ring. A process that
// gets it aborts (exit code 134), as any Horovod process leaves.
var removed = Assignment{-1, -1, -1, -1, -1, -1}

// Valid returns an error if the assignment cannot be sent to a process.
func (a Assignment) Valid() error {
	if a == removed {
		return nil
	}
	for _, p := range []struct {
		name       string
		rank, size int
	}{
		{"rank", a.Rank, a.Size},
		{"local rank", a.LocalRank, a.LocalSize},
		{"cross rank", a.CrossRank, a.CrossSize},
	} {
		if p.rank < 0 || p.rank >= p.size {
			return fmt.Errorf("%s %d is not within 0..%d", p.name, p.rank, p.size-1)
		}
	}
	return nil
}

// String returns the form that Horovod parses: six numbers with commas between
// them.
func (a Assignment) String() string {
	return fmt.Sprintf("%d,%d,%d,%d,%d,%d", a.Rank, a.Size, a.LocalRank, a.LocalSize, a.CrossRank, a.CrossSize)
}
