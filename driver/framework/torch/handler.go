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

// handler answers one process. One without a place is held: so newcomers wait with
// everything imported, and survivors wait while there is no leader.
type handler struct {
	events host.Events
	log    hclog.Logger
	limits limits
	mode   *mode            // of all processes of the host
	worker *worker.Server   // nil before Listen, and where no process is to use it
	store  *tcpstore.Server // nil before Listen

	mu       sync.Mutex
	greeted  bool          // it has said hello
	ends     bool          // and takes end
	retired  bool          // it has no next place
	restarts bool          // it has used the store without: it can't change its ring
	arrived  bool          // it has asked for a place
	present  *placement    // nil before the first
	left     uint64        // generation that it has left
	placed   chan struct{} // closed with the first place
	silence  *time.Timer   // until its silence is reported, nil when that is over
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
		h.worker.Place(p.Place)
	}
}

// place returns the place that the process was given last, nil before the first.
func (h *handler) place() *placement {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.present
}

// Hello takes in a process that connects.
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
	p, retired := h.present, h.retired
	h.mu.Unlock()
	switch {
	case retired: // as above
		h.worker.End(generation)
	case first:
		h.events.Notifiable()
		h.events.Arrived(false)
	case leaves:
		h.events.Waiting(generation)
	case again:
		h.worker.Place(p.Place)
	}
}

// Forming takes in that the process takes its time to connect to its ring.
func (h *handler) Forming(generation uint64, round int, listening []netip.AddrPort) {
	if p := h.place(); p != nil && p.Generation == generation {
		h.events.Forming(generation, round, listening)
	}
}

// Retire tells the process that it has no next place.
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

// Formed takes in that the process is connected to its ring.
func (h *handler) Formed(generation uint64, round int, listening []netip.AddrPort, known bool) {
	if p := h.place(); p != nil && p.Generation == generation {
		h.events.Connected(generation, round, listening, known)
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
	h.use()
	select {
	case <-h.placed:
	case <-ctx.Done():
	}
	p := h.place() // also where both have happened
	if p == nil {
		return nil, ctx.Err()
	}
	if h.replaced() {
		p.replica.Formed(p.Rank) // no more is known of it
	}
	return p.replica.Client(p.Rank), nil
}

// limits are how long a process may be silent before its user is asked for the
// reason: any process, and one that uses the store.
type limits struct{ silence, store time.Duration }

// greet notes that the process speaks the worker protocol.
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

// use notes that the process uses the store. kolo.torch does that only after its hello:
// a process that has said none has formed its group by itself, and is held for its place.
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
		go func() { // the host may be closing the store, which waits for this
			h.events.Notifiable()
			h.events.Arrived(true)
		}()
	}
}

// replaced reports whether another process will take the place of this one.
func (h *handler) replaced() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.restarts
}

// begin begins the wait for the process's first word; mode is the configured one.
func (h *handler) begin(mode string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.silence = time.AfterFunc(h.limits.silence, func() {
		h.events.Warn(fmt.Sprintf("its process has not connected to the agent for %s: %s", h.limits.silence, question(mode)))
	})
}

// hurry shortens the wait for the hello of a process that uses the store in place of
// kolo.torch; h.mu is held.
func (h *handler) hurry() {
	if h.silence == nil || !h.silence.Stop() {
		return
	}
	h.silence = time.AfterFunc(h.limits.store, func() {
		h.events.Warn(fmt.Sprintf("its process waits for a process group without having connected to the agent: does the script call "+
			"torch.distributed.init_process_group itself? %s forms the group; mode = \"restart\" trains the script as it is", entry))
	})
}

// stopSilence ends the wait for the process's first word; h.mu is held.
func (h *handler) stopSilence() {
	if h.silence != nil {
		h.silence.Stop()
		h.silence = nil
	}
}

// end ends what waits for the process.
func (h *handler) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopSilence()
}
