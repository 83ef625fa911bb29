// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/usage"
)

var slotSecondsDesc = prometheus.NewDesc("kolo_slot_seconds_total",
	"Slot-seconds that elastic jobs held since this autoscaler leads, by what they were used for.", []string{"pool", "queue", "namespace", "use"}, nil)

// uses lists the values of the label use.
var uses = [...]string{"productive", "starting", "resizing", "lost", "spare", "idle", "unknown"}

// owner identifies who used slots. The operator chooses all three names, so there are few
// of them.
type owner struct{ pool, queue, namespace string }

// Used holds counters of what jobs used since a ledger was loaded. A later report may move
// time to another category. Counters do not decrease then, but stay as they are until the
// new amount is larger.
type Used struct {
	base     map[owner]usage.Counts // of days that are closed, minus what was loaded
	counters map[owner][len(uses)]int64
}

// NewUsed returns counters that are 0 for the present amounts of a ledger.
func NewUsed(l *usage.Ledger) *Used {
	u := &Used{base: map[owner]usage.Counts{}, counters: map[owner][len(uses)]int64{}}
	for o, c := range sums(l) {
		u.base[o] = minus(c)
	}
	return u
}

// Update brings the counters up to date with a ledger.
func (u *Used) Update(l *usage.Ledger) {
	for o, c := range sums(l) {
		base := u.base[o]
		c.Add(&base)
		now, counters := [...]int64{c.Productive, c.Starting, c.Resizing, c.Lost, c.Spare, c.Idle(), c.Unknown}, u.counters[o]
		for i := range counters {
			counters[i] = max(counters[i], now[i])
		}
		u.counters[o] = counters
	}
}

// Close keeps the amounts of a day that the ledger is about to drop.
func (u *Used) Close(l *usage.Ledger, day usage.Day) {
	for _, r := range l.Day(day) {
		o := owner{r.Pool, r.Queue, r.Namespace}
		base := u.base[o]
		base.Add(&r.Counts)
		u.base[o] = base
	}
}

func sums(l *usage.Ledger) map[owner]usage.Counts {
	out := map[owner]usage.Counts{}
	for _, r := range l.Rows {
		o := owner{r.Pool, r.Queue, r.Namespace}
		c := out[o]
		c.Add(&r.Counts)
		out[o] = c
	}
	return out
}

func minus(c usage.Counts) usage.Counts {
	return usage.Counts{
		Held: -c.Held, Productive: -c.Productive, Starting: -c.Starting, Resizing: -c.Resizing, Lost: -c.Lost, Spare: -c.Spare, Unknown: -c.Unknown,
	}
}

// Clone returns a copy.
func (u *Used) Clone() *Used {
	out := &Used{counters: make(map[owner][len(uses)]int64, len(u.counters))}
	for o, c := range u.counters {
		out.counters[o] = c
	}
	return out
}

// Collect sends the counters to ch. It adds up the counters of namespaces that the reader
// may not see, under an empty queue and an empty namespace.
func (u *Used) Collect(ch chan<- prometheus.Metric, sees func(identity.JobKey) bool) {
	shown := map[owner][len(uses)]int64{}
	may := map[string]bool{}
	for o, c := range u.counters {
		sees1, asked := may[o.namespace]
		if !asked {
			sees1 = sees(identity.JobKey{Namespace: o.namespace, ID: anyJob})
			may[o.namespace] = sees1
		}
		if !sees1 {
			o.queue, o.namespace = "", ""
		}
		sum := shown[o]
		for i := range sum {
			sum[i] += c[i]
		}
		shown[o] = sum
	}
	for o, c := range shown {
		for i, use := range uses {
			ch <- prometheus.MustNewConstMetric(slotSecondsDesc, prometheus.CounterValue, float64(c[i])/1000, o.pool, o.queue, o.namespace, use)
		}
	}
}

// anyJob stands for a job of which only the namespace matters.
const anyJob = "kolo"
