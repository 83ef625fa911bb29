// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package lint reads a job specification and lists the problems that prevent it from
// training with Kolo or make it train worse, each with its line.
//
//	text ─┬─ nesting ── jobspec2 ──> api.Job ──┬─ kolo block ──── package jobspec
//	      │                                    ├─ task's config ─ package taskconfig
//	      │                                    ├─ worker's flags  package workerflags
//	      │                                    └─ rules of this package
//	      └─ hclsyntax ──> source: where each block and argument stands
//
// Values come from Nomad's own parser, so variables, locals, functions and dynamic
// blocks have the values that `nomad job run` would send. The settings that a task
// passes to Kolo are checked by the same code as on the client. Values that only a
// client knows (${…}) are not checked. A finding is an error if the job would be refused
// or could not form a ring, else a warning.
//
// The package reads only files that the job names, and contacts no cluster.
package lint
