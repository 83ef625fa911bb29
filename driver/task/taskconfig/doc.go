// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package taskconfig turns what a user sets about a training task into the
// configuration of its agent.
//
//	task driver: `config` of a jobspec ──┐
//	                                     ├── Read ──> Task{Agent: config.Config, …}
//	kolo-worker: command line ───────────┘     or problems, a sentence each
//
// Everything that a task driver and an agent that is a task's own program have in
// common is here: fields, defaults, checks and messages. What they know in different
// ways (which files a task sees, say) are questions in Surroundings. The package
// changes nothing and knows no framework.
package taskconfig
