// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package recording is the format of a recording: the answers of an autoscaler's API over
// time, so that the web page can show them again.
//
//	recording = "kolo recording 1\n" block ...
//	block     = header (28 bytes) data
//	header    = data length, raw length, frames (32 bits each), first time, last time (64 bits each)
//	data      = raw, compressed with zlib
//	raw       = frame ...
//	frame     = milliseconds since the previous frame, changes, change ..., events, event ...
//	change    = request, kind, text    (kind 0: gone; 1: an answer; 2: a delta)
//	event     = text
//
// Numbers in a header are big-endian; times are milliseconds since 1970. All other numbers
// are of variable length (encoding/binary), and a text is its length and its bytes. The first
// frame of a block is at the first time. A request is its number in the block plus 1; 0
// introduces the next number, and the text of the request follows.
//
// A frame contains only answers that differ from the previous frame. A delta (see delta)
// describes an answer by that request's previous answer in the block. A block does not depend
// on others, so a reader decodes one block to get to any time, and a recording that lost its
// end is complete up to its last whole block.
//
// A reader trusts nothing: it bounds every length before it allocates, and its errors name the
// offset of the block. It does not check what an answer says.
package recording

import "time"

// magic begins a recording. The number in it is the version of the format.
const magic = "kolo recording 1\n"

// Limits of a recording. A writer begins a new block before one exceeds its limits.
const (
	headerSize    = 28
	mostBlocks    = 1 << 17
	mostData      = 16 << 20  // bytes of a block's data
	mostRaw       = 16 << 20  // bytes of a block's frames
	mostFrames    = 1 << 12   // of a block
	mostChanges   = 1 << 18   // of a block, and events
	mostApplied   = 256 << 20 // bytes of a block's answers
	mostAnswer    = 4 << 20   // bytes of one answer or event
	mostRequest   = 1 << 12   // bytes of one request
	mostRequests  = 1 << 13   // of a block
	usualFrames   = 256       // a writer's limits
	usualRaw      = 4 << 20
	usualApplied  = 64 << 20
	usualChanges  = 1 << 16
	usualRequests = 1 << 12
)

// The kinds of a change.
const (
	gone = iota
	whole
	changed
)

// Frame is what the API answered at one time. Answers holds the bodies by request, such as
// /v1/series?id=train&namespace=default, with the parameters in order. Events holds the events
// since the previous frame as JSON.
type Frame struct {
	At      time.Time // whole milliseconds
	Answers map[string][]byte
	Events  [][]byte
}
