// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package server serves the autoscaler's HTTP API, its metrics, and a small web
// page that shows the API's answers.
//
// A request passes these stages, in order:
//
//	connection   limits connections, in total and by address        bounded.go
//	gate         refuses foreign sites, host names, socket users    gate.go
//	caller       identifies the caller by token or Unix socket      caller.go
//	scope        finds the namespaces that the caller may read      scope.go
//	quota        limits concurrent answers, plans and streams       quota.go
//	leader       passes commands on to the autoscaler that leads    forward.go
//
// A command is stored in Nomad with the caller's token, so Nomad decides whether it
// is allowed. The autoscaler's own token is used only for callers on the Unix
// socket, where file permissions decide, and for all callers if http.open is set.
// Every command is recorded (package audit), even if it was refused.
//
// docs/reference/api.md describes every request; a test compares the two.
package server
