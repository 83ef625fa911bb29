// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package leader

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
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
		Phase: "waiting", Hosts: len(l.hosts), MinNP: c.MinNP, MaxNP: c.MaxNP, Resets: l.machine.Resets(), Surplus: l.machine.Surplus(), SparesReady: l.machine.SparesReady(), TakesSpares: l.scaled && c.Restart.SpareHosts == 0 && l.machine.CanKeepSpares(), KeepsBatch: l.keepsBatch,
		Step: p.Step, Samples: p.Samples, Epoch: p.Epoch, TotalSteps: p.TotalSteps, Loss: p.Loss, Adaptive: p.Adaptive, ProgressAt: p.At, SteppedAt: p.SteppedAt,
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
	s.Stall = l.stall
	s.Straggler = l.stragglerNow(s.Ranks, now)
	if l.ended != nil {
		s.Phase, s.Complete, s.Outcome = "finished", l.ended.Success, l.ended.Reason
	}
	if l.ranks == 0 || !slices.Equal(s.Ranks, l.status.Ranks) || s.Stall != l.status.Stall {
		l.ranks++
	}
	l.status, l.statusAt = s, now
	l.sendStatus(s)
}

// sendStatus sends a status to every host. It leaves out the ranks and the stacks if the host
// knows them: every second, a job of n hosts would otherwise send n times n ranks.
func (l *Leader) sendStatus(s *wire.Status) {
	whole, rest := &wire.ToAgent{Status: s}, &wire.ToAgent{Status: s.WithoutRanks()}
	for id, m := range l.hosts {
		if m.keepsRanks && m.ranks == l.ranks {
			l.send(id, rest)
			continue
		}
		l.send(id, whole)
		m.ranks = l.ranks
	}
}

// ranksOf names the ranks of a host: "rank 2", "ranks 2-3" or, where replicas span hosts,
// "ranks 2-3, 6".
func ranksOf(ring *elastic.Ring, h elastic.HostID) string {
	var spans []string
	count := 0
	for rank := 0; rank < len(ring.Members); rank++ {
		first := rank
		for rank < len(ring.Members) && ring.Members[rank].Proc.Slot.Host == h {
			rank++
		}
		switch count += rank - first; rank - first {
		case 0:
		case 1:
			spans = append(spans, strconv.Itoa(first))
		default:
			spans = append(spans, fmt.Sprintf("%d-%d", first, rank-1))
		}
	}
	if count == 1 {
		return "rank " + spans[0]
	}
	return "ranks " + strings.Join(spans, ", ")
}

// costOf describes the cost of a resize: its gap and lost steps.
func costOf(r *wire.Resize) string {
	text := "gap unknown"
	if r.Gap != nil {
		text = fmt.Sprintf("gap %.2f s", *r.Gap)
	}
	switch {
	case r.LostSteps == nil:
		text += ", unknown how many steps are made again"
	case *r.LostSteps > 0:
		text += fmt.Sprintf(", %.0f steps made again", *r.LostSteps)
	}
	return text
}

// reportResize reports a resize on each host of the ring.
func (l *Leader) reportResize(r *wire.Resize) {
	ring := l.machine.Last()
	if r == nil || ring == nil || ring.Generation != r.Generation {
		return
	}
	for _, h := range ring.Hosts() {
		text := fmt.Sprintf("ring %d: %s of %d", r.Generation, ranksOf(ring, h), r.To)
		if r.Cause != "start" {
			text += fmt.Sprintf(", was %d, %s", r.From, costOf(r))
		}
		l.send(h, &wire.ToAgent{Event: &elastic.TaskEvent{Host: h, Text: text}})
	}
	l.publish()
}
