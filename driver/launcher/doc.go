// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package launcher is the `run` subcommand: it trains elastically on one machine,
// without Nomad, with the flags of the framework's own launcher (Dialect). All hosts
// and the leader are in one process.
//
//	flags, discovery script ── discover ──> follow ──> host.Host, one for each name
//	                                          │           │ wire.Pipe
//	                                          └── Resize ─> leader.Leader
package launcher
