// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package peertest is a test fixture: agents of one job whose identities a Nomad of
// its own signs.
package peertest
