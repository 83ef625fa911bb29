// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/driver/task/stacks"
)

// Subcommand is the subcommand of the agent's program that calls Main.
const Subcommand = "stacks"

// TakeTime bounds Take in Main. It leaves `kolo stacks`, which has 10 s, time to collect
// the answers.
const TakeTime = 7 * time.Second

// Main takes the stacks of the training processes of an allocation and prints them as a
// stacks.Report in JSON. Its arguments are the agent's directory for progress and, if it is
// not TakeTime, the time for that in seconds. It returns the exit code.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	within := TakeTime
	if len(args) == 2 {
		seconds, err := strconv.ParseFloat(args[1], 64)
		if err != nil || !(seconds > 0 && seconds <= TakeTime.Seconds()) {
			args = nil
		}
		within = time.Duration(seconds * float64(time.Second))
	}
	if len(args) != 1 && len(args) != 2 {
		_, _ = fmt.Fprintf(stderr, "usage: %s <directory of the agent's progress files> [<seconds, at most %.0f>]\n", Subcommand, TakeTime.Seconds())
		return 2
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	report, err := Take(ctx, args[0])
	if err == nil {
		err = json.NewEncoder(stdout).Encode(report)
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// Take returns what the training processes do that the list of ranks in a directory names.
// If ctx ends, the stacks that are missing have a reason. Then a goroutine may still read
// from /proc, where a read can wait for a process that the kernel does not let run. So the
// program should end soon.
func Take(ctx context.Context, dir string) (stacks.Report, error) {
	ranks, err := readRanks(dir)
	if err != nil {
		return stacks.Report{}, err
	}
	report := stacks.Report{Generation: ranks.Generation, Size: ranks.Size}
	if n := len(ranks.Processes) - stacks.MaxRanks; n > 0 {
		ranks.Processes, report.Dropped = ranks.Processes[:stacks.MaxRanks], n
	}
	t := &taker{dir: dir, all: list()}
	for _, e := range ranks.Processes {
		report.Ranks = append(report.Ranks, stacks.Rank{Rank: e.Rank, Slot: e.Slot, Step: e.Step, Process: stacks.Process{PID: e.PID, State: t.all[e.PID].state, Missing: errTime.Error()}})
	}
	gather(ctx, report.Ranks, func(i int) stacks.Rank { return t.rank(ctx, ranks.Processes[i]) })
	return report, nil
}

// gather replaces each rank by what take returns for it. It returns soon after the end of
// ctx, even if a call does not.
func gather(ctx context.Context, ranks []stacks.Rank, take func(int) stacks.Rank) {
	type answer struct {
		at   int
		rank stacks.Rank
	}
	answers := make(chan answer, len(ranks)) // a late answer blocks no one
	for i := range ranks {
		go func() { answers <- answer{i, take(i)} }()
	}
	done, over := ctx.Done(), (<-chan time.Time)(nil)
	for missing := len(ranks); missing > 0; {
		select {
		case got := <-answers:
			ranks[got.at] = got.rank
			missing--
		case <-done:
			done, over = nil, time.After(lastAnswers)
		case <-over:
			return
		}
	}
}

// lastAnswers is how long gather waits after the end of ctx, for the reasons of what is missing.
const lastAnswers = 200 * time.Millisecond

var errTime = errors.New("there was no time left")

// taker takes the stacks of an allocation.
type taker struct {
	dir string
	all map[int]process
	spy pySpy
}

// target is a process whose stacks are taken.
type target struct {
	process
	file   string // into which it writes its stacks
	inRing bool   // it belongs to a rank of the ring
	// late are processes with the same file that have not answered in time.
	late *[]late
}

// rank returns what a rank and its descendants do. It looks at the rank first.
func (t *taker) rank(ctx context.Context, e Entry) stacks.Rank {
	r := stacks.Rank{Rank: e.Rank, Slot: e.Slot, Step: e.Step}
	p, found := t.all[e.PID]
	if !found || p.started != e.Started {
		r.Process = stacks.Process{PID: e.PID, State: stacks.Dead, Missing: "it has ended"}
		return r
	}
	file := filepath.Join(t.dir, filepath.Base(e.Stacks))
	p = t.python(p, file)
	next := target{process: p, file: file, inRing: e.Rank != stacks.NoRank, late: new([]late)}
	r.Process = t.process(ctx, next)
	workers := descendants(t.all, p.pid)
	if n := len(workers) - stacks.MaxWorkers; n > 0 {
		workers, r.DroppedWorkers = workers[:stacks.MaxWorkers], n
	}
	for _, w := range workers {
		next.process = w
		r.Workers = append(r.Workers, t.process(ctx, next))
	}
	return r
}

// python returns the process that runs a rank's script: the rank's process or, if that is
// another program, such as a shell, its first descendant that runs Python.
func (t *taker) python(p process, file string) process {
	if runsPython(p.pid, file) {
		return p
	}
	for _, d := range descendants(t.all, p.pid) {
		if runsPython(d.pid, file) {
			return d
		}
	}
	return p
}

// process returns what a process does.
func (t *taker) process(ctx context.Context, p target) stacks.Process {
	out := observe(p.process)
	if p.state == stacks.Dead {
		out.Missing = "it has ended"
		return out
	}
	if !runsPython(p.pid, p.file) {
		out.Missing = "it does not run Python"
		return out
	}
	if ctx.Err() != nil {
		out.Missing = errTime.Error()
		return out
	}
	threads, err := t.spy.dump(ctx, p.process)
	if err == nil {
		out.Source, out.Threads = stacks.FromPySpy, threads
		return out
	}
	why := []string{err.Error()}
	switch {
	case slices.Contains([]stacks.State{stacks.Stopped, stacks.Traced, stacks.Disk}, p.state):
		why = append(why, fmt.Sprintf("faulthandler: a process that is %s handles no signal", p.state))
	default:
		if threads, err = askProcess(ctx, p); err == nil {
			out.Source, out.Threads = stacks.FromFaulthandler, threads
			return out
		}
		if errors.Is(err, os.ErrNotExist) {
			err = errNoHandler
		}
		why = append(why, "faulthandler: "+err.Error())
	}
	out.Missing = strings.Join(why, "; ")
	return out
}

// observe returns what the kernel shows of a process.
func observe(p process) stacks.Process {
	out := stacks.Process{PID: p.pid, Command: p.command, State: p.state}
	if now, err := readStat(p.pid); err == nil && now.started == p.started {
		out.State = now.state
	}
	if slices.Contains([]stacks.State{stacks.Sleeping, stacks.Disk}, out.State) {
		out.Syscall, out.Wchan = syscallOf(p.pid), wchanOf(p.pid)
	}
	return out
}

// runsPython reports whether a process is a Python interpreter, by its name, or answers
// Signal.
func runsPython(pid int, file string) bool {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil && strings.HasPrefix(filepath.Base(path), "python") || answers(pid, file)
}
