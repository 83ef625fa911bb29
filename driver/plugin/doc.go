// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package plugin is the Nomad task driver of a training framework (Framework).
//
// It knows nothing of ranks and rings. It checks the jobspec, starts one agent per task
// with Nomad's own executor, and passes the agent's reports on to Nomad. Everything that
// makes training elastic happens in the agent (package agent), which keeps running when
// this plugin or the Nomad client goes away.
//
//	Nomad client ──gRPC──> Driver ──gRPC──> executor ──fork──> agent ──> slots
//	                         │  (this binary,  (this binary,     │
//	                         │   no arguments)  `executor`)      │ appends
//	                         └────────────── tails ───── events.jsonl
//
// The executor and the agent belong to the task, not to the plugin. The task's handle,
// which Nomad keeps, contains everything needed to find them again.
//
// The steps of a start:
//
//	decode ─> validate ──────> prepare ────────────> launch ──> register
//	          taskconfig       privatedirs           executor   eventtail
//	          Framework        isolation.Rootfs
//	          gpu              devnode.Reservation
//	          isolation.Layout confine
//
// # Protecting root from a task
//
// Plugin and executor run as root, and a task's directories belong to the task. So root
// writes its own files for a task elsewhere (package privatedirs), which is also where an
// isolated task's root directory lies. It opens the task's files (events, outputs) without
// following links and without blocking. Processes in a container drop their privileges in
// package confine before any code of the job runs.
//
// The package supports Linux only.
package plugin
