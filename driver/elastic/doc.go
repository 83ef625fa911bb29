// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package elastic decides which training processes form the ring, with which
// ranks, and when the ring changes. The leader feeds it events and performs the
// actions that it returns. The package does no I/O, starts no goroutine and reads
// no clock, so that every order of events can be tested.
//
// # Slots
//
// A host offers slots. A slot runs one training process at a time. If processes can't
// change their ring, the slot's standby runs another. An exit leads from any state to Down:
//
//	        Start           first request        Form
//	Down ─────────> Starting ──────────> Arrived ─────> InRing ──┐
//	                                       (held)         ↑      │ asks for
//	                                                Form  │      │ rank and size
//	                                                     Waiting <┘
//	                                                      (held)
//
// # Phases of the ring
//
// A phase is a type with the state that only it has. A transition replaces it as
// a whole (phase.go):
//
//	       forms           connected
//	noRing ─────> forming ───────────> training
//	 ↑  │            │   <───────────     │
//	 │  │            │     unconnected    │
//	 │  │ returned   │ left, intruded     │ left, intruded, stalled
//	 │  └─────────┐  │  ┌─────────────────┘
//	 │            ↓  ↓  ↓
//	 └────────── dissolving
//	   dissolved
//
//	forms        enough processes wait or have arrived
//	connected    all members finished the rendezvous
//	unconnected  a member of an adopted ring, taken for connected, is not
//	left         a member left the ring, or was lost
//	intruded     a process outside the ring is connected to a member
//	stalled      the ring made no steps for too long
//	dissolved    no member is left in the ring
//	returned     a lost host registers again, with a member still in the ring
//
// In every phase, a host may register with a newer ring that another leader has formed. The
// machine then adopts that ring, in phase forming. A notice of a change is not a phase,
// because Horovod may drop it, and because the change may be cancelled while the ring keeps
// training.
//
// The outcome of the job is separate from the phase. Once it is decided (ending.go),
// no ring forms and processes are stopped. End follows when the last one has exited.
//
// # Changes
//
// Growth is staged. Newcomers start with their future ranks, and their first request is
// kept waiting. When all of them have arrived, the ring is notified to stop at its next
// commit. Shrinking needs no staging.
//
// After a failure the survivors form the next ring at once, if there are enough of them. If
// a process fails while a ring forms, the response depends on the framework. If processes
// can give up a forming ring (Framework.AbandonsForming), that ring breaks at once.
// Otherwise another process takes the place of the one that died.
//
// # Spare hosts
//
// With Options.SpareHosts, some hosts stay outside the ring. Their processes are started once
// the ring trains, and wait in Arrived, or in Waiting if they were in a ring before. When a
// member is lost, they join the next ring; see spare.go.
//
// # Unmodified scripts
//
// A process that has its rank and size in the environment can't change its ring and never
// reaches Waiting (Options.Restarts, SlotArrived.Restarts). The phases are the same;
// restart.go has the differences:
//
//	                 ring 1 trains          all arrived    ring 2 trains
//	slot 0      #1 ──────────────────────────┬─── ends ─┐
//	  standby       #1 starts ── is held ────┴──────────┴───────────────
//	                                       notice    rank 0 out
//
// The processes of the next ring start in the standbys of the slots. When all have arrived,
// every member is asked to save a checkpoint and end. From then on every exit is expected.
// When rank 0 has exited, the other members are stopped; when all members have exited, the
// next ring forms.
//
// A member that exits with 0 without a notice completes the job. Any other exit without
// a notice breaks the ring: the others are killed, and the next ring forms from spares
// (Options.Spares), or all slots start again.
//
// # State
//
// Slots that have the training state are called synced. Rank 0 broadcasts its state when a
// ring forms, so rank 0 is never assigned to an unsynced slot while a synced one is alive.
// If none is alive, the state is lost. The machine then ends the job or, if Options allow
// it, starts again from the script's checkpoint.
//
// If a model is sharded, the slots of a replica share the state (Options.Replica). A ring
// then has whole replicas only, and the first of them has the whole state. A replica that
// lacks a slot waits for it; see replica.go.
//
// The protocol is Horovod's (runner/elastic/driver.py and registration.py at
// v0.28.1); comments explain where the package departs from it.
package elastic
