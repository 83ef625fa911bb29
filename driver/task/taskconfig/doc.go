// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package taskconfig turns the user's settings of a training task into the configuration of
// its agent.
//
//	task driver: `config` of a jobspec ──┐
//	                                     ├── Read ──> Task{Agent: config.Config, …}
//	kolo-worker: command line ───────────┘     or problems, a sentence each
//
// It contains everything that the task driver and kolo-worker have in common: fields,
// defaults, checks and messages. Facts that the two learn in different ways, such as which
// files a task sees, are functions in Surroundings. The package changes nothing and knows
// no framework.
package taskconfig
