// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package elastic decides which training processes form the ring, with which
// ranks, and when the ring changes. It is the leader's mind: events go in,
// actions come out. It does no I/O, starts no goroutine and reads no clock, so
// that every order of events can be tested.
//
// A host brings slots; a slot is one training process. A slot moves like this
// (an exit from any state leads to Down):
//
//	        Start           first request        Form
//	Down ─────────> Starting ──────────> Arrived ─────> InRing ──┐
//	                                       (held)         ↑      │ asks for
//	                                                Form  │      │ rank and size
//	                                                     Waiting <┘
//	                                                      (held)
//
// and the ring like this:
//
//	none ──Form──> forming ──all up──> training ──notice or failure──> dissolving
//	  ↑                                                                    │
//	  └─────────────────── nobody is left in it ───────────────────────────┘
//
// Growth is staged: newcomers are started with the ranks that they will have
// and are held at their first request, and only when all of them are there is
// the ring told to stop at its next commit. Shrinking needs no staging. After
// a failure the survivors go on at once, as soon as they are enough.
//
// Slots that hold the training state are called synced. Rank 0 broadcasts its
// state when a ring forms, so rank 0 is never given to an unsynced slot while
// a synced one lives; when none lives, the state is lost and the machine says
// so instead of training from the beginning.
//
// The protocol it drives is Horovod's (runner/elastic/driver.py and
// registration.py at v0.28.1); where it departs from them the comments say why.
package elastic
