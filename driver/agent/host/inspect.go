// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/driver/agent/process/inspect"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/task/stacks"
)

const (
	// inspectShare is the part of the leader's time in which the stacks are taken. The rest is
	// left to collect and send the answer.
	inspectShare = 0.8
	// maxInspected bounds the report of stacks in bytes.
	maxInspected = 8 << 20
)

// inspect takes the stacks of the host's processes for the leader, which is about to break
// the ring. If they cannot be taken, the answer has none.
func (h *Host) inspect(request wire.Inspect) {
	if h.inspecting || h.o.Program == "" || request.Ring != wire.IDOf(h.ring) {
		return
	}
	h.inspecting = true
	h.listRanks(time.Now())
	within := min(inspect.TakeTime, time.Duration(max(request.Within, 0)*float64(time.Second)))
	h.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(h.life, within)
		defer cancel()
		ranks, err := h.takeStacks(ctx, inspectShare*within.Seconds(), request.Ring.Generation)
		h.post(func() {
			h.inspecting = false
			if err != nil {
				h.log.Warn("cannot take the stacks of a ring that makes no steps", "error", err)
			}
			h.send(&wire.ToLeader{Inspected: &wire.Inspected{Ring: request.Ring, Number: request.Number, Ranks: ranks}})
		})
	})
}

// takeStacks returns the stacks of the host's processes in the ring. It has the given number of
// seconds. A program of its own collects them, because it reads files that the task has written,
// and because a read from /proc may never end.
func (h *Host) takeStacks(ctx context.Context, seconds float64, generation uint64) ([]stacks.Rank, error) {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return private(name)
	})
	out, err := h.spawner.Output(ctx, maxInspected, env, h.o.Program, inspect.Subcommand, h.o.Config.ProgressDir, strconv.FormatFloat(seconds, 'f', 3, 64))
	if err != nil {
		return nil, err
	}
	report, err := stacks.Decode(out)
	if err != nil || report.Generation != generation {
		return nil, err
	}
	var ranks []stacks.Rank
	for _, r := range report.Ranks {
		if r.Rank != stacks.NoRank {
			r.Brief()
			ranks = append(ranks, r)
		}
	}
	return ranks, nil
}
