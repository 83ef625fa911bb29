// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package server serves the autoscaler's HTTP API, its metrics, and a small web
// page that shows the API's answers.
//
// A request passes these stages, in order:
//
//	connection   bounds on their number, in total and by address  bounded.go
//	gate         the name it was sent to, other sites, peers      gate.go
//	caller       Nomad token, Unix socket, or open to all         caller.go
//	scope        the namespaces that the caller may read          scope.go
//	quota        answers, plans and streams at a time             quota.go
//	leader       commands are passed on to the autoscaler that leads   forward.go
//
// A command is stored in Nomad with the caller's token, so Nomad decides whether it
// is allowed. The autoscaler's own token is used only for callers on the Unix
// socket, where file permissions decide, and for all callers if http.open is set.
// Every command is recorded (package audit), even if it was refused.
//
// docs/reference/api.md describes every request; a test compares the two.
package server
