// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package entrypoint is kolo-worker: an agent that is the program of a Nomad task, in an
// image or without one, under any task driver that gives it the host's network.
//
//	kolo-worker [flags] -- python train.py
//
//	NOMAD_*, secrets ──> Surroundings ─┐
//	flags ─────────────> given ────────┴─ taskconfig.Read ─> config.Config ──┐
//	this machine ──────> facts ── check ─> problems, warnings ───────────────┴─> agent.Run
//
// Some facts that the task driver learns from Nomad are in no variable. For these there is
// a flag (kill_timeout) or a substitute (task events: they are in the log and in
// /v1/status).
//
// Nomad learns how a task ended from its exit code only. 0 means that the training is
// complete. A task that leaves exits with 143, so that Nomad replaces it unless Nomad
// itself has stopped it.
package entrypoint
