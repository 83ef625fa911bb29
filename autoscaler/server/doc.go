// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package server is the autoscaler's HTTP API, its metrics, and a small web
// page that shows what the API tells.
//
// Reading needs no token. Whoever wants to change something presents a Nomad
// token (header X-Nomad-Token), and the agent stores the wish in Nomad with
// that very token: it is Nomad that decides. Without a token the agent's own
// is used where the API is bound to loopback, or where http.open says so, and
// the request was sent to a name of ours: a page may have its own name point
// here.
//
// docs/api.md describes every request; a test compares the two.
package server
