// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package entrypoint is kolo-worker: an agent that is the program of a Nomad task, in
// an image or without one, under any task driver that gives it the host's network.
//
//	kolo-worker [flags] -- python train.py
//
//	NOMAD_*, secrets ──> Surroundings ─┐
//	flags ─────────────> given ────────┴─ taskconfig.Read ─> config.Config ──┐
//	this machine ──────> facts ── check ─> problems, warnings ───────────────┴─> agent.Run
//
// Where the task driver learns something from Nomad that no variable holds, there is
// a flag (kill_timeout) or none (task events: they are in the log and in /v1/status).
//
// Nomad is not told by the driver how a task ended, but by its exit code: 0 is for
// training that is complete, and one that leaves ends with 143, so that Nomad replaces
// it unless Nomad has stopped it.
package entrypoint
