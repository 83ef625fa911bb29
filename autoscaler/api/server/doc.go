// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package server is the autoscaler's HTTP API, its metrics, and a small web
// page that shows what the API reports.
//
// A request passes, in this order:
//
//	connection   bounds on their number, in total and by address  bounded.go
//	gate         the name it was sent to, other sites, peers      gate.go
//	caller       Nomad token, Unix socket, or open to all         caller.go
//	scope        the namespaces that the caller may read          scope.go
//	quota        answers, plans and streams at a time             quota.go
//	leader       commands are passed on to the autoscaler that leads   forward.go
//
// Commands are stored in Nomad with the caller's token: Nomad decides. The
// autoscaler's own token is used for callers of the Unix socket, where file
// permissions decide, and for all callers where http.open is set. Each command is
// recorded (package audit), a refused one, too.
//
// docs/reference/api.md describes every request; a test compares the two.
package server
