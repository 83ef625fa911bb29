// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package timeline remembers the recent past for display: the slots that each job held, and
// the reports of its training. No decision depends on it.
//
// Its memory is bounded. Slots forgets the oldest changes first. Series halves its resolution
// when it is full.
package timeline
