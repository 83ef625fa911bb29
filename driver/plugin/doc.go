// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package plugin is the Nomad task driver of a training framework (Framework).
//
// It knows nothing of ranks and rings. It checks what a jobspec asks for,
// starts one agent per task with Nomad's own executor, and reports to Nomad what the
// agent reports; all that makes training elastic happens in the agent (package
// agent), which keeps running when this plugin or the Nomad client goes away.
//
//	Nomad client ──gRPC──> Driver ──gRPC──> executor ──fork──> agent ──> slots
//	                         │  (this binary,  (this binary,     │
//	                         │   no arguments)  `executor`)      │ appends
//	                         └────────────── tails ───── events.jsonl
//
// The executor and the agent belong to the task, not to the plugin: what is
// needed to find them again is in the task's handle, which Nomad keeps.
//
// A start goes one way:
//
//	decode ─> validate ──────> prepare ────────────> launch ──> register
//	          taskconfig       privatedirs           executor   eventtail
//	          Framework        isolation.Rootfs
//	          gpu              devnode.Reservation
//	          isolation.Layout confine
//
// # What a task may do to root
//
// Plugin and executor are root, and a task's directories are the task's. So root
// keeps what it writes for a task elsewhere (package privatedirs), which is also
// where an isolated task's root directory lies, and opens what is the task's (events,
// outputs) without following links and without waiting. Processes in a container
// lose their privileges in package confine, before anything of the job's runs.
//
// The package runs on Linux only.
package plugin
