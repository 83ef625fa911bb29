// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package leader

import (
	"fmt"
	"time"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
)

// publish renews the status and sends it to every host.
func (l *Leader) publish() {
	c := l.o.Config
	now := time.Now()
	p := l.stats.newest()
	s := &wire.Status{Job: c.JobID, Namespace: c.Namespace, Service: c.Service, Leader: c.AllocID, PeerAuth: l.o.PeerAuth, Term: l.o.Term,
		Phase: "waiting", Hosts: len(l.hosts), MinNP: c.MinNP, MaxNP: c.MaxNP, Resets: l.machine.Resets(),
		Step: p.Step, Samples: p.Samples, Epoch: p.Epoch, TotalSteps: p.TotalSteps, Loss: p.Loss, ProgressAt: p.At,
		StepSeconds: l.stats.stepSeconds(), Resizes: l.stats.resizes, Updated: wire.Seconds(now), Ranks: []wire.Rank{}}
	if !l.quorum.OK {
		s.Hold = l.quorum.Reason
	}
	if last := l.machine.Last(); last != nil {
		s.Generation = last.Generation
	}
	if r := l.machine.Ring(); r != nil {
		s.Phase, s.Size = "resizing", len(r.Members)
		if l.machine.Up() {
			s.Phase = "training"
		}
		for i, m := range r.Members {
			rank := wire.Rank{Rank: i, Host: string(m.Proc.Slot.Host), Slot: m.Proc.Slot.Local}
			if h := l.hosts[m.Proc.Slot.Host]; h != nil {
				rank.AllocID = h.alloc
				rank.Slot = elastic.SlotNumber(rank.Slot, h.width)
			}
			s.Ranks = append(s.Ranks, rank)
		}
	}
	if l.ended != nil {
		s.Phase, s.Complete, s.Outcome = "finished", l.ended.Success, l.ended.Reason
	}
	l.status, l.statusAt = s, now
	l.broadcast(&wire.ToAgent{Status: s})
}

// reportResize reports a resize on each host of the ring.
func (l *Leader) reportResize(r *wire.Resize) {
	ring := l.machine.Last()
	if r == nil || ring == nil || ring.Generation != r.Generation {
		return
	}
	next := 0 // rank after those of the hosts so far
	for _, h := range ring.Hosts() {
		first := next
		for next < len(ring.Members) && ring.Members[next].Proc.Slot.Host == h {
			next++
		}
		text := fmt.Sprintf("ring %d: rank %d of %d", r.Generation, first, r.To)
		if next > first+1 {
			text = fmt.Sprintf("ring %d: ranks %d-%d of %d", r.Generation, first, next-1, r.To)
		}
		if r.Cause != "start" {
			text += fmt.Sprintf(", was %d, gap %.2f s", r.From, r.Gap)
		}
		if r.LostSteps > 0 {
			text += fmt.Sprintf(", %.0f steps made again", r.LostSteps)
		}
		l.send(h, &wire.ToAgent{Event: &elastic.TaskEvent{Host: h, Text: text}})
	}
	l.publish()
}
