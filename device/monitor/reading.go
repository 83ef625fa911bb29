// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package monitor

import (
	"time"

	"github.com/kolo-nomad/kolo/device/nvml"
)

// allEvery is the interval of samples that include values that are slow to read or
// to change.
const allEvery = 5 * time.Second

// Reading is the newest sample of a GPU, with rates computed from earlier ones.
type Reading struct {
	Sample nvml.Sample
	// Rates are in bytes per second since the previous reading; nil at first.
	NVLinkTx, NVLinkRx, PCIeTx, PCIeRx *float64

	// allAt is when the last sample of all values was taken.
	allAt time.Time
}

// next returns the reading that follows from a new sample.
func (r *Reading) next(now time.Time, s nvml.Sample, all bool) *Reading {
	n := &Reading{Sample: s, allAt: now}
	if r == nil {
		return n
	}
	if !all {
		n.allAt = r.allAt
		n.Sample.Rest = r.Sample.Rest
	}
	seconds := s.Time.Sub(r.Sample.Time).Seconds()
	n.NVLinkTx = rate(r.Sample.NVLinkTx, s.NVLinkTx, seconds)
	n.NVLinkRx = rate(r.Sample.NVLinkRx, s.NVLinkRx, seconds)
	n.PCIeTx = rate(r.Sample.PCIeTx, s.PCIeTx, seconds)
	n.PCIeRx = rate(r.Sample.PCIeRx, s.PCIeRx, seconds)
	if n.Sample.PCIeTxRate != nil && n.Sample.PCIeRxRate != nil {
		n.PCIeTx, n.PCIeRx = n.Sample.PCIeTxRate, n.Sample.PCIeRxRate
	}
	return n
}

// rate returns the growth of a counter. It is nil if the counter wrapped, or was
// reset with the driver.
func rate(before, now *uint64, seconds float64) *float64 {
	if before == nil || now == nil || *now < *before || seconds <= 0 {
		return nil
	}
	v := float64(*now-*before) / seconds
	return &v
}
