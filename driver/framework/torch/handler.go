// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package torch

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/driver/agent/host"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/framework/torch/release"
	"github.com/kolo-nomad/kolo/driver/framework/torch/store"
	"github.com/kolo-nomad/kolo/driver/framework/torch/tcpstore"
	"github.com/kolo-nomad/kolo/driver/framework/torch/worker"
	"github.com/kolo-nomad/kolo/driver/task/plaintext"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

var errTakesNoEnd = errors.New("its kolo package is older than the message for that")

// placement is the place of a process in one ring.
type placement struct {
	worker.Place
	replica *store.Replica
}

// handler answers one process. Requests wait until the process has a place: newcomers wait
// with their imports done, and survivors wait while there is no leader.
type handler struct {
	events host.Events
	log    hclog.Logger
	limits limits
	mode   *mode            // of all processes of the host
	worker *worker.Server   // nil before Listen, and if no process may use it
	store  *tcpstore.Server // nil before Listen

	mu       sync.Mutex
	greeted  bool          // it has said hello
	ends     bool          // it understands the message end
	retired  bool          // it will get no next place
	keeps    bool          // it must not adapt its batch
	restarts bool          // it has used the store without hello, so it can't change its ring
	arrived  bool          // it has asked for a place
	present  *placement    // nil before the first
	left     uint64        // generation of the ring that it has left
	placed   chan struct{} // closed with the first place
	silence  *time.Timer   // runs until its silence is reported; nil afterwards
}

func newHandler(m *mode, e host.Events, log hclog.Logger) *handler {
	return &handler{mode: m, events: e, log: log, limits: limits{silence: time.Minute, store: 5 * time.Second}, placed: make(chan struct{})}
}

// admit gives the process a place.
func (h *handler) admit(p *placement) {
	h.mu.Lock()
	if h.present == nil {
		close(h.placed)
	}
	h.present = p
	h.mu.Unlock()
	if h.worker != nil {
		h.tell(p)
	}
}

// tell sends the process a place.
func (h *handler) tell(p *placement) {
	h.mu.Lock()
	defer h.mu.Unlock()
	place := p.Place
	place.KeepBatch = h.keeps
	h.worker.Place(place)
}

// KeepBatch tells the process whether it must not adapt its batch.
func (h *handler) KeepBatch(keep bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.keeps != keep && h.worker != nil {
		h.worker.Batch(keep)
	}
	h.keeps = keep
}

// place returns the process's latest place, nil before the first.
func (h *handler) place() *placement {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.present
}

// Hello handles the connection of a process.
func (h *handler) Hello(hello worker.Hello) error {
	if err := h.greet(); err != nil {
		return err
	}
	h.mu.Lock()
	h.ends = hello.Ends
	h.mu.Unlock()
	h.log.Debug("process connected", "client", plaintext.Line(hello.Client, plaintext.Limit), "torch", plaintext.Line(hello.Torch, plaintext.Limit))
	return release.Check(hello.Torch)
}

// Ready records that the process waits for its next place.
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
	again := generation < last && h.left < last // the answer was lost with the connection
	p, retired := h.present, h.retired
	h.mu.Unlock()
	switch {
	case retired: // see Retire
		h.worker.End(generation)
	case first:
		h.events.Notifiable()
		h.events.Arrived(false)
	case leaves:
		h.events.Waiting(generation)
	case again:
		h.tell(p)
	}
}

// Forming records that the process is still connecting to its ring.
func (h *handler) Forming(generation uint64, round int, listening []netip.AddrPort) {
	if p := h.place(); p != nil && p.Generation == generation {
		h.events.Forming(generation, round, listening)
	}
}

// Retire tells the process that it gets no next place.
func (h *handler) Retire(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ends {
		return errTakesNoEnd
	}
	h.retired = true
	h.worker.End(h.left)
	return nil
}

// Formed records that the process is connected to its ring.
func (h *handler) Formed(generation uint64, round int, listening []netip.AddrPort, known bool) {
	if p := h.place(); p != nil && p.Generation == generation {
		h.events.Connected(generation, round, listening, known)
		p.replica.Formed(p.Rank)
	}
}

// Progress passes on the progress of the ring.
func (h *handler) Progress(generation uint64, line []byte) {
	if p, ok := wire.ParseProgress(line); ok {
		h.events.Progress(generation, p)
	}
}

// Refused reports a refusal, after which the process is going to fail.
func (h *handler) Refused(err error) {
	h.events.Warn("its process was refused by the agent: " + plaintext.Line(err.Error(), plaintext.Limit)) // the error may quote the process's message
}

// Store returns the store of the process's ring, for a new connection.
func (h *handler) Store(ctx context.Context) (tcpstore.Store, error) {
	h.use()
	select {
	case <-h.placed:
	case <-ctx.Done():
	}
	p := h.place() // also if both have happened
	if p == nil {
		return nil, ctx.Err()
	}
	if h.replaced() {
		p.replica.Formed(p.Rank) // nothing more will be known of it
	}
	return p.replica.Client(p.Rank), nil
}

// limits are how long a process may be silent before the user is asked about it: any
// process, and one that uses the store.
type limits struct{ silence, store time.Duration }

// greet records that the process uses the worker protocol.
func (h *handler) greet() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.restarts:
		return errStoreFirst
	case !h.mode.takes(settings.ModeInProcess):
		return errOthersRestart
	}
	h.greeted = true
	h.stopSilence()
	return nil
}

// use records that the process uses the store. kolo.torch does so only after its hello. A
// process that uses the store without a hello forms its group by itself, and waits for its
// place.
func (h *handler) use() {
	h.mu.Lock()
	first := false
	switch {
	case h.greeted || h.restarts:
	case h.mode.takes(settings.ModeRestart):
		first, h.restarts, h.arrived = true, true, true
		h.stopSilence()
	default:
		h.hurry()
	}
	h.mu.Unlock()
	if first {
		go func() { // the host may be closing the store, which waits for use
			h.events.Notifiable()
			h.events.Arrived(true)
		}()
	}
}

// replaced reports whether another process will take this one's place.
func (h *handler) replaced() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.restarts
}

// begin starts the timer for the process's first message; mode is the configured one.
func (h *handler) begin(mode string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.silence = time.AfterFunc(h.limits.silence, func() {
		h.events.Warn(fmt.Sprintf("its process has not connected to the agent for %s: %s", h.limits.silence, question(mode)))
	})
}

// hurry shortens the wait for the hello of a process that already uses the store. The
// caller holds h.mu.
func (h *handler) hurry() {
	if h.silence == nil || !h.silence.Stop() {
		return
	}
	h.silence = time.AfterFunc(h.limits.store, func() {
		h.events.Warn(fmt.Sprintf("its process waits for a process group without having connected to the agent: does the script call "+
			"torch.distributed.init_process_group itself? %s forms the group; mode = \"restart\" trains the script as it is", entry))
	})
}

// stopSilence stops the timer for the process's first message. The caller holds h.mu.
func (h *handler) stopSilence() {
	if h.silence != nil {
		h.silence.Stop()
		h.silence = nil
	}
}

// end ends everything that waits for the process.
func (h *handler) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopSilence()
}
