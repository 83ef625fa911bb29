// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/driver/agent/process/inspect"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/task/stacks"
)

// stepsListed is how often the list of ranks is written because of new steps alone.
const stepsListed = 2 * time.Second

// listRanks writes the list of ranks for package inspect if it has changed.
func (h *Host) listRanks(now time.Time) {
	if h.o.Config.ProgressDir == "" {
		return
	}
	list := h.ranksNow()
	if !now.After(h.listedAt.Add(stepsListed)) && sameProcesses(&list, &h.listed) || equalRanks(&list, &h.listed) {
		return
	}
	h.listedAt, h.listed = now, list
	if err := list.Write(h.o.Config.ProgressDir); err != nil {
		h.warnOnce("ranks", "kolo stacks cannot see the processes of this allocation: "+err.Error())
	}
}

// ranksNow returns the processes that run now.
func (h *Host) ranksNow() inspect.Ranks {
	list := inspect.Ranks{}
	if h.ring != nil {
		list.Generation, list.Size = h.ring.Generation, len(h.ring.Members)
	}
	for local, s := range h.slots {
		if s.proc == nil {
			continue
		}
		e := inspect.Entry{Slot: h.number(local), Rank: stacks.NoRank, PID: s.proc.PID(), Started: s.started, Stacks: filepath.Base(s.progress.stacksFile())}
		if s.State == elastic.InRing && s.Generation == list.Generation { // otherwise it is still in the ring before
			e.Rank = s.rank
		}
		if s.latest.Step != nil {
			e.Step = int64(*s.latest.Step)
		}
		list.Processes = append(list.Processes, e)
	}
	return list
}

func equalRanks(a, b *inspect.Ranks) bool {
	return a.Generation == b.Generation && a.Size == b.Size && slices.Equal(a.Processes, b.Processes)
}

// sameProcesses reports whether two lists differ in nothing but steps.
func sameProcesses(a, b *inspect.Ranks) bool {
	return a.Generation == b.Generation && a.Size == b.Size && slices.EqualFunc(a.Processes, b.Processes, func(p, q inspect.Entry) bool {
		p.Step = q.Step
		return p == q
	})
}
