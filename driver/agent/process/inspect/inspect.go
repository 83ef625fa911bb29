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
	"strings"
	"sync"
	"time"

	"github.com/kolo-nomad/kolo/driver/task/stacks"
)

// Subcommand is the subcommand of the agent's program that calls Main.
const Subcommand = "stacks"

// takeTime bounds Take in Main. It leaves `kolo stacks`, which has 10 s, time to collect
// the answers.
const takeTime = 7 * time.Second

// Main takes the stacks of the training processes of an allocation and prints them as a
// stacks.Report in JSON. Its argument is the agent's directory for progress. It returns the
// exit code.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) != 1 {
		_, _ = fmt.Fprintf(stderr, "usage: %s <directory of the agent's progress files>\n", Subcommand)
		return 2
	}
	ctx, cancel := context.WithTimeout(ctx, takeTime)
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
// If ctx ends, the stacks that are missing have a reason.
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
	report.Ranks = make([]stacks.Rank, len(ranks.Processes))
	var tasks sync.WaitGroup
	for i, e := range ranks.Processes {
		tasks.Go(func() { report.Ranks[i] = t.rank(ctx, e) })
	}
	tasks.Wait()
	return report, nil
}

// taker takes the stacks of an allocation.
type taker struct {
	dir string
	all map[int]process
	spy pySpy
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
	inRing := e.Rank != stacks.NoRank
	r.Process = t.process(ctx, p, file, inRing)
	workers := descendants(t.all, p.pid)
	if n := len(workers) - stacks.MaxWorkers; n > 0 {
		workers, r.DroppedWorkers = workers[:stacks.MaxWorkers], n
	}
	for _, w := range workers {
		r.Workers = append(r.Workers, t.process(ctx, w, file, inRing))
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

// process returns what a process does. inRing states whether it belongs to a rank of the ring.
func (t *taker) process(ctx context.Context, p process, file string, inRing bool) stacks.Process {
	out := observe(p)
	if p.state == stacks.Dead {
		out.Missing = "it has ended"
		return out
	}
	if !runsPython(p.pid, file) {
		out.Missing = "it does not run Python"
		return out
	}
	if ctx.Err() != nil {
		out.Missing = "there was no time left"
		return out
	}
	threads, err := t.spy.dump(ctx, p)
	if err == nil {
		out.Source, out.Threads = stacks.FromPySpy, threads
		return out
	}
	why := []string{err.Error()}
	switch {
	case !inRing && age(p.started) < starting:
		why = append(why, "faulthandler: "+errOutside.Error())
	case slices.Contains([]stacks.State{stacks.Stopped, stacks.Traced, stacks.Disk}, p.state):
		why = append(why, fmt.Sprintf("faulthandler: a process that is %s handles no signal", p.state))
	default:
		if threads, err = askProcess(ctx, p.pid, p.started, file); err == nil {
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
