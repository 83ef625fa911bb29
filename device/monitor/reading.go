// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package monitor

import (
	"time"

	"github.com/kolo-nomad/kolo/device/nvml"
)

// restEvery is how often what is slow to read or slow to change is read.
const restEvery = 5 * time.Second

// reading is the newest sample of a GPU, with what came from earlier ones.
type reading struct {
	sample nvml.Sample
	// rest is when the last sample of all was taken.
	rest time.Time
	// rates are bytes per second since the reading before; nil at first.
	nvlinkTx, nvlinkRx, pcieTx, pcieRx *float64
}

// next makes the reading that follows from a new sample.
func (r *reading) next(now time.Time, s nvml.Sample, all bool) *reading {
	n := &reading{sample: s, rest: now}
	if r == nil {
		return n
	}
	if !all {
		n.rest = r.rest
		n.sample.Rest = r.sample.Rest
	}
	seconds := s.Time.Sub(r.sample.Time).Seconds()
	n.nvlinkTx = rate(r.sample.NVLinkTx, s.NVLinkTx, seconds)
	n.nvlinkRx = rate(r.sample.NVLinkRx, s.NVLinkRx, seconds)
	n.pcieTx = rate(r.sample.PCIeTx, s.PCIeTx, seconds)
	n.pcieRx = rate(r.sample.PCIeRx, s.PCIeRx, seconds)
	if n.sample.PCIeTxRate != nil && n.sample.PCIeRxRate != nil {
		n.pcieTx, n.pcieRx = n.sample.PCIeTxRate, n.sample.PCIeRxRate
	}
	return n
}

// rate is the growth of a counter. A counter that wrapped, or began anew with
// the driver, gives none.
func rate(before, now *uint64, seconds float64) *float64 {
	if before == nil || now == nil || *now < *before || seconds <= 0 {
		return nil
	}
	v := float64(*now-*before) / seconds
	return &v
}
