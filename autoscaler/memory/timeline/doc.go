// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package timeline remembers the recent past for people who look at it: which job held how
// many slots, and how a training went. No decision reads it.
//
// Everything is bounded. Slots forgets the oldest changes first, and Series halves its
// resolution when it is full.
package timeline
