// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/driver/localpeer"
)

// loudRefusals is how many refused connections of a slot's endpoint are logged
// as warnings, each with the process if it can be seen: enough to find out why,
// too few for a flood to fill the log or to cost much.
const loudRefusals = 20

// slotGate lets only processes of the task talk to the rendezvous endpoint of a
// slot. Others could read and forge the addresses of the ring, replace the
// process that is notified, and report that the slot has left.
type slotGate struct {
	gate    *localpeer.Gate
	log     hclog.Logger
	refused atomic.Int64
	// first is called with the first refusal.
	first func(reason string)
}

// newGate returns the gate of one of the host's slots.
func (h *Host) newGate(local int) *slotGate {
	return &slotGate{gate: h.peers.NewGate(), log: h.log.Named("rendezvous").With("slot", local), first: func(reason string) {
		h.post(func() { h.reportRefusal(local, reason) })
	}}
}

// reportRefusal tells the user of the first refusal: it is an attack, or the
// reason why Horovod is about to abort.
func (h *Host) reportRefusal(local int, reason string) {
	const key = "refused"
	if h.warned[key] {
		return
	}
	h.warned[key] = true
	h.o.Stories.tell(fmt.Sprintf("slot %d: refused a connection to its rendezvous endpoint, which answers processes of this task only: %s; "+
		"if it is part of the training, start it as a child of the task's command; the agent's log has more", local, reason))
}

// Admit is rendezvous.Gate's.
func (g *slotGate) Admit(local, remote netip.AddrPort) error {
	err := g.gate.Admit(local, remote)
	if err == nil || errors.Is(err, localpeer.ErrGone) {
		return err
	}
	n := g.refused.Add(1)
	if n == 1 {
		g.first(err.Error())
	}
	if n > loudRefusals {
		g.log.Debug("refused a connection", "error", err, "refused", n)
		return err
	}
	who := ""
	var refused *localpeer.RefusedError
	if errors.As(err, &refused) {
		who = localpeer.Holder(refused.Peer.Inode)
	}
	g.log.Warn("refused a connection", "error", err, "process", printable(who), "refused", n)
	return err
}

// close frees the gate when its endpoint is closed, and reports the total.
func (g *slotGate) close() {
	if n := g.refused.Load(); n > loudRefusals {
		g.log.Warn("refused connections to a slot's endpoint", "refused", n)
	}
	g.gate.Close()
}
