// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package nomadtest is a stand-in for Nomad's HTTP API, for tests and
// measurements of the autoscaler in one process: thousands of nodes, no
// containers, and faults on demand.
//
// It behaves exactly as package contract asserts of a real Nomad. It serves pages of
// lists with blocking queries, an event stream, variables with locks, and scaling
// with its conflicts. Each scale makes a new job version, copies the version tag, and
// runs completed batch workers again. Workers are placed immediately, first-fit;
// stopped ones end after StopDelay.
//
// Much of Nomad is missing. There is one namespace. There are only blocked
// evaluations and the evaluations that follow from them. There are no deployments and
// no plans. Access control covers only the owner of a token and the jobs it may read
// and scale.
package nomadtest
