// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/driver/sandbox/localpeer"
	"github.com/kolo-nomad/kolo/driver/task/plaintext"
)

// loudRefusals is how many refused connections of a slot's endpoint are logged as
// warnings, with the process if it can be seen. That is enough to find the cause, and too
// few for a flood to fill the log or to cost much.
const loudRefusals = 20

// callerCheck admits only processes of the task to the rendezvous endpoint of a slot.
// Other processes could read and forge the addresses of the ring, replace the process
// that is notified, and report that the slot has left.
type callerCheck struct {
	gate    *localpeer.Gate
	log     hclog.Logger
	refused atomic.Int64
	// first is called on the first refusal.
	first func(reason string)
}

// newCallerCheck returns the check of one of the host's slots, by its number.
func (h *Host) newCallerCheck(number int) *callerCheck {
	return &callerCheck{gate: h.peers.NewGate(), log: h.log.Named("rendezvous").With("slot", number), first: func(reason string) {
		// The host's goroutine may be closing the endpoint, which waits for this check.
		go h.post(func() { h.reportRefusal(number, reason) })
	}}
}

// reportRefusal reports the first refusal to the user. It means an attack, or that the
// process is about to fail.
func (h *Host) reportRefusal(number int, reason string) {
	h.warnOnce("refused", fmt.Sprintf("slot %d: refused a connection to its agent's port, which answers processes of this task only: %s; "+
		"if it is part of the training, start it as a child of the task's command; the agent's log has more", number, reason))
}

// Admit returns nil for a connection whose peer is a process of the task.
func (c *callerCheck) Admit(local, remote netip.AddrPort) error {
	err := c.gate.Admit(local, remote)
	if err == nil || errors.Is(err, localpeer.ErrGone) {
		return err
	}
	n := c.refused.Add(1)
	if n == 1 {
		c.first(err.Error())
	}
	if n > loudRefusals {
		c.log.Debug("refused a connection", "error", err, "refused", n)
		return err
	}
	who := ""
	var refused *localpeer.RefusedError
	if errors.As(err, &refused) {
		who = localpeer.Holder(refused.Peer.Inode)
	}
	c.log.Warn("refused a connection", "error", err, "process", plaintext.Line(who, plaintext.Limit), "refused", n)
	return err
}

// close frees the check after its endpoint is closed, and logs the number of refusals.
func (c *callerCheck) close() {
	if n := c.refused.Load(); n > loudRefusals {
		c.log.Warn("refused connections to a slot's endpoint", "refused", n)
	}
	c.gate.Close()
}
