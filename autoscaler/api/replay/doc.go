// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package replay records what the web page reads from the API of an autoscaler, and serves the
// page from such a recording.
//
//	kolo agent ──answers, events──> Recorder ──> recording ──> Server ──> page
//
// The page is the same and needs no other program: it asks for the same paths, and gets the
// answers of the time that the replay has reached. All viewers share this time, which the
// page's slider sets with PUT /v1/replay. Nothing else can be changed.
//
// A recording contains what the recorder's token may read, but no token.
package replay
