// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package lint reads a job specification and lists what keeps it from training with
// Kolo, or makes it train worse, with the lines.
//
//	text ─┬─ nesting ── jobspec2 ──> api.Job ──┬─ kolo block ──── package jobspec
//	      │                                    ├─ task's config ─ package taskconfig
//	      │                                    ├─ worker's flags  package workerflags
//	      │                                    └─ rules of this package
//	      └─ hclsyntax ──> source: where each block and argument stands
//
// Values come from Nomad's own parser, so that variables, locals, functions and dynamic
// blocks are what `nomad job run` would send. What a task gives to Kolo is checked by
// the code that checks it on the client. Values that only a client knows (${…}) are not
// judged. A finding is of class error where the job would be refused or could not form a
// ring, else a warning.
//
// Nothing but the files that the job names is read, and no cluster is asked.
package lint
