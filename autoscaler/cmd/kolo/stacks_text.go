// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kolo-nomad/kolo/driver/task/stacks"
)

// framesShown is how many frames of a stack the text has, the innermost. The outermost
// frames are the script's own beginning.
const framesShown = 10

// text returns the stacks for a terminal. With whole it has all frames and all threads.
func (j *jobStacks) text(whole bool) string {
	b := &stacksText{whole: whole}
	ranks := 0
	for _, g := range j.Groups {
		ranks += len(g.Ranks)
	}
	b.line(0, "%s: %s of %s, %s", j.Job, counted(ranks, "rank"), counted(j.allocations, "allocation"), j.Taken.Format("15:04:05 MST"))
	for _, g := range j.Groups {
		b.group(g)
	}
	if n := len(j.Waiting); n > 0 {
		b.blank()
		b.line(0, "%s outside the ring, waiting for a place", processes(n))
	}
	if len(j.Unanswered) > 0 {
		b.blank()
		for _, u := range j.Unanswered {
			b.line(0, "allocation %s on %s: %s", shortID(u.Alloc), u.Node, u.Problem)
		}
	}
	return strings.TrimRight(b.out.String(), "\n")
}

// stacksText writes the text line by line.
type stacksText struct {
	out   strings.Builder
	whole bool
}

func (b *stacksText) blank() { b.out.WriteByte('\n') }

func (b *stacksText) line(indent int, format string, args ...any) {
	fmt.Fprintf(&b.out, strings.Repeat(" ", indent)+format+"\n", args...)
}

// group writes ranks that do the same: the stack of the first, and the worker processes of
// all if they are suspects.
func (b *stacksText) group(g rankGroup) {
	b.blank()
	mark := ""
	if g.Suspect {
		mark = " (suspect)"
	}
	first := &g.Ranks[0]
	b.line(0, "%s%s: %s%s", rankNames(g.Ranks), mark, doing(&first.Process), stepsOf(g.Ranks))
	b.stack(2, &first.Process)
	if !g.Suspect && !b.whole {
		return
	}
	for i := range g.Ranks {
		r := &g.Ranks[i]
		b.line(2, "%sprocess %d in slot %d of allocation %s on %s", several(g.Ranks, r.Rank.Rank), r.PID, r.Slot, shortID(r.Alloc), r.Node)
		b.workers(r)
	}
}

// workers writes the child processes of a rank, grouped by equal stacks.
func (b *stacksText) workers(r *placedRank) {
	for _, g := range stacks.Groups(r.Workers, func(p *stacks.Process) *stacks.Process { return p }) {
		first := &g.Members[0]
		such := ""
		if len(g.Members) > 1 {
			such = "such as "
		}
		b.line(4, "%s, %s%d %s: %s", children(len(g.Members)), such, first.PID, first.Command, doing(first))
		b.stack(6, first)
	}
	if r.DroppedWorkers > 0 {
		b.line(4, "%d more", r.DroppedWorkers)
	}
}

// stack writes a process's main thread or, with whole, all its threads.
func (b *stacksText) stack(indent int, p *stacks.Process) {
	if len(p.Threads) == 0 {
		b.line(indent, "stack unknown: %s", cmp.Or(p.Missing, "the process runs no Python code"))
		return
	}
	for _, t := range p.Threads {
		if !t.Main && !b.whole {
			continue
		}
		if !t.Main {
			b.line(indent, "thread %s", cmp.Or(t.Name, "without a name"))
		}
		b.frames(indent, t)
	}
}

func (b *stacksText) frames(indent int, t stacks.Thread) {
	shown := t.Frames
	if !b.whole {
		shown = shown[:min(len(shown), framesShown)]
	}
	width := 0
	for _, f := range shown {
		width = max(width, min(len(f.Function), 40))
	}
	for _, f := range shown {
		b.line(indent+2, "%-*s  %s:%d", width, f.Function, f.File, f.Line)
	}
	switch left := len(t.Frames) - len(shown); {
	case len(t.Frames) == 0:
		b.line(indent+2, "in no Python function")
	case t.Cut:
		b.line(indent+2, "…")
	case left > 0:
		b.line(indent+2, "… %d more", left)
	}
}

// doing describes what the kernel says about a process.
func doing(p *stacks.Process) string {
	switch p.State {
	case stacks.Stopped:
		return "stopped by a signal (SIGSTOP)"
	case stacks.Traced:
		return "stopped by a debugger"
	case stacks.Disk:
		return "in a sleep that no signal ends" + inCall(p)
	case stacks.Sleeping:
		return "sleeping" + inCall(p)
	default:
		return string(p.State)
	}
}

func inCall(p *stacks.Process) string {
	switch {
	case p.Syscall != "":
		return " in " + p.Syscall
	case p.Wchan != "":
		return " in the kernel's " + p.Wchan
	}
	return ""
}

// rankNames returns, for example, "rank 5" or "7 ranks (0-4, 6, 7)".
func rankNames(ranks []placedRank) string {
	if len(ranks) == 1 {
		return rankName(ranks[0].Rank.Rank)
	}
	var numbers []int
	for _, r := range ranks {
		numbers = append(numbers, r.Rank.Rank)
	}
	if slices.Contains(numbers, stacks.NoRank) {
		return processes(len(ranks)) + " without a rank"
	}
	return fmt.Sprintf("%d ranks (%s)", len(ranks), stacks.Ranges(numbers))
}

func rankName(rank int) string {
	if rank == stacks.NoRank {
		return "a process without a rank"
	}
	return "rank " + strconv.Itoa(rank)
}

// several returns the name of a rank if it is not the only one of its group.
func several(ranks []placedRank, rank int) string {
	if len(ranks) == 1 {
		return ""
	}
	return rankName(rank) + ": "
}

// stepsOf returns the last steps that ranks have reported, or "" if none has.
func stepsOf(ranks []placedRank) string {
	least, most := ranks[0].Step, ranks[0].Step
	for _, r := range ranks {
		least, most = min(least, r.Step), max(most, r.Step)
	}
	switch {
	case most == 0:
		return ""
	case least == most:
		return fmt.Sprintf(", after step %d", most)
	}
	return fmt.Sprintf(", after steps %d to %d", least, most)
}

func processes(n int) string {
	if n == 1 {
		return "1 process"
	}
	return strconv.Itoa(n) + " processes"
}

func children(n int) string {
	if n == 1 {
		return "1 child process"
	}
	return strconv.Itoa(n) + " child processes"
}
