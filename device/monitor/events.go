// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package monitor

import (
	"fmt"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/device/inventory"
	"github.com/kolo-nomad/kolo/device/nvml"
)

// handle handles a listener's report.
func (m *Monitor) handle(now time.Time, o occurrence) {
	defer m.publish()
	if o.from != m.listener {
		return // from a listener that was stopped since
	}
	if o.err != nil {
		m.log.Warn("listening to the driver's events has failed; it starts again", "error", o.err)
		<-o.from.done
		m.listener = nil
		if nvml.Unavailable(o.err) {
			m.nvmlUnavailable(now, o.err)
		}
		return
	}
	m.record(now, o.event)
	m.assess(now)
}

// record records an event for the units that it concerns.
func (m *Monitor) record(now time.Time, e nvml.Event) {
	if e.Kind == nvml.EventXID && slices.Contains(m.cfg.Health.IgnoredXIDs, e.XID) {
		m.log.Debug("ignoring an XID that a program causes", "gpu", e.UUID, "xid", e.XID)
		return
	}
	for _, u := range m.layout.Units {
		if !concerns(e, u) {
			continue
		}
		if e.Kind == nvml.EventDoubleBit {
			m.health[u.ID()].set(now, causeECC, uncorrectedText)
		} else {
			m.health[u.ID()].set(now, causeXID, xidText(e.XID))
		}
	}
}

// concerns reports whether an event is about a unit. An event that names no GPU
// concerns all units; one that names a MIG instance concerns only this instance.
func concerns(e nvml.Event, u inventory.Unit) bool {
	if e.UUID != "" && e.UUID != u.GPU.UUID {
		return false
	}
	if in := u.Instance; in != nil && e.GI >= 0 {
		return in.GI == e.GI && (e.CI < 0 || in.CI == e.CI)
	}
	return true
}

// xidMeanings explains the most common XIDs, so that operators can act on the
// reason.
var xidMeanings = map[uint64]string{
	48:  "double-bit ECC error",
	62:  "internal micro-controller halt",
	63:  "row remapping or page retirement",
	64:  "row remapping or page retirement failed",
	74:  "NVLink error",
	79:  "the GPU has fallen off the bus",
	92:  "high rate of single-bit ECC errors",
	94:  "contained memory error",
	95:  "uncontained memory error",
	119: "the GPU's system processor does not answer",
	120: "error of the GPU's system processor",
	140: "unrecovered ECC error",
}

func xidText(xid uint64) string {
	if meaning, ok := xidMeanings[xid]; ok {
		return fmt.Sprintf("XID %d (%s)", xid, meaning)
	}
	return fmt.Sprintf("XID %d", xid)
}
