// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package peertest is a test fixture: agents of one job, with identities that a
// fake Nomad signs.
package peertest
