// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package torch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/driver/agent/host"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/plaintext"
	"github.com/kolo-nomad/kolo/driver/torch/release"
	"github.com/kolo-nomad/kolo/driver/torch/store"
	"github.com/kolo-nomad/kolo/driver/torch/tcpstore"
	"github.com/kolo-nomad/kolo/driver/torch/worker"
)

// placement is the place of a process in one ring.
type placement struct {
	worker.Place
	replica *store.Replica
}

// handler answers one process. One without a place is held: so newcomers wait with
// everything imported, and survivors wait while there is no leader.
type handler struct {
	events host.Events
	log    hclog.Logger
	limits limits
	worker *worker.Server   // nil before Listen
	store  *tcpstore.Server // likewise

	mu      sync.Mutex
	arrived bool          // it has asked for a place
	present *placement    // nil before the first
	left    uint64        // generation that it has left
	placed  chan struct{} // closed with the first place
	silence *time.Timer   // until its silence is reported, nil when it has said hello
}

func newHandler(e host.Events, log hclog.Logger) *handler {
	return &handler{events: e, log: log, limits: limits{silence: time.Minute, store: 5 * time.Second}, placed: make(chan struct{})}
}

// admit gives the process a place.
func (h *handler) admit(p *placement) {
	h.mu.Lock()
	if h.present == nil {
		close(h.placed)
	}
	h.present = p
	h.mu.Unlock()
	h.worker.Place(p.Place)
}

// place returns the place that the process was given last, nil before the first.
func (h *handler) place() *placement {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.present
}

// Hello takes in a process that connects.
func (h *handler) Hello(hello worker.Hello) error {
	h.end() // the wait for it
	h.log.Debug("process connected", "client", plaintext.Line(hello.Client, plaintext.Limit), "torch", plaintext.Line(hello.Torch, plaintext.Limit))
	return release.Check(hello.Torch)
}

// Ready takes in that the process waits for its next place.
func (h *handler) Ready(generation uint64) {
	h.mu.Lock()
	var last uint64
	if h.present != nil {
		last = h.present.Generation
	}
	first := !h.arrived
	h.arrived = true
	leaves := generation == last && h.left < last
	if leaves {
		h.left = last
	}
	again := generation < last && h.left < last // its answer was lost with its connection
	p := h.present
	h.mu.Unlock()
	switch {
	case first:
		h.events.Notifiable()
		h.events.Arrived()
	case leaves:
		h.events.Waiting(generation)
	case again:
		h.worker.Place(p.Place)
	}
}

// Formed takes in that the process is connected to its ring.
func (h *handler) Formed(generation uint64) {
	if p := h.place(); p != nil && p.Generation == generation {
		p.replica.Formed(p.Rank)
	}
}

// Progress takes in how far the ring has come.
func (h *handler) Progress(generation uint64, line []byte) {
	if p, ok := wire.ParseProgress(line); ok {
		h.events.Progress(generation, p)
	}
}

// Refused reports a refusal, which is about to fail the process.
func (h *handler) Refused(err error) {
	h.events.Warn("its process was refused by the agent: " + plaintext.Line(err.Error(), plaintext.Limit)) // it may quote what was sent
}

// Store returns the store of the process's ring, for a new connection.
func (h *handler) Store(ctx context.Context) (tcpstore.Store, error) {
	h.hurry()
	select {
	case <-h.placed:
	case <-ctx.Done():
	}
	p := h.place() // also where both have happened
	if p == nil {
		return nil, ctx.Err()
	}
	return p.replica.Client(p.Rank), nil
}

// limits are how long a process may be silent before its user is asked for the
// reason: any process, and one that uses the store.
type limits struct{ silence, store time.Duration }

// begin begins the wait for the process's hello.
func (h *handler) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.silence = time.AfterFunc(h.limits.silence, func() {
		h.events.Warn(fmt.Sprintf("its process has not connected to the agent for %s: does the script call %s? Without, it has no place in the process group; "+
			"kolo.torch is in the Python package kolo", h.limits.silence, entry))
	})
}

// hurry follows when the process uses the store. kolo.torch does that only after its
// hello.
func (h *handler) hurry() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.silence == nil || !h.silence.Stop() {
		return
	}
	h.silence = time.AfterFunc(h.limits.store, func() {
		h.events.Warn(fmt.Sprintf("its process waits for a process group without having connected to the agent: does the script call "+
			"torch.distributed.init_process_group itself? %s forms the group", entry))
	})
}

// end ends the wait for the process's hello.
func (h *handler) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.silence != nil {
		h.silence.Stop()
		h.silence = nil
	}
}
