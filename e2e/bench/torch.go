// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/e2e/train"
)

// TorchResults are the measurements of PyTorch in process.
type TorchResults struct {
	Resize *Changes `json:"resize,omitempty"`
	Slow   *Changes `json:"slow,omitempty"`
	// Bare holds the gaps, in seconds, of groups that form again without a launcher,
	// by change.
	Bare map[string][]float64 `json:"bare,omitempty"`
	// Recovery is for the kill of the last rank, LeadRecovery for that of rank 0,
	// HostRecovery for that of both ranks of a host.
	Recovery     *Recovery `json:"recovery,omitempty"`
	LeadRecovery *Recovery `json:"lead_recovery,omitempty"`
	HostRecovery *Recovery `json:"host_recovery,omitempty"`
	// State holds measurements with frozen parameters, by their size in MiB, and
	// Trained those with trained parameters and their momentum. Broadcast has the
	// times, in seconds, of a plain broadcast of the same size.
	State     map[int]*Changes     `json:"state,omitempty"`
	Trained   map[int]*Changes     `json:"trained,omitempty"`
	Broadcast map[string][]float64 `json:"broadcast,omitempty"`
	// Restart holds changes of a torchrun script that Kolo restarts.
	Restart *Changes `json:"restart,omitempty"`
	// StepMS holds the medians of step times, in milliseconds, by what is measured.
	StepMS map[string][]float64 `json:"step_ms,omitempty"`
	Store  string               `json:"store,omitempty"`
}

// measureReform measures the route with PyTorch alone.
func measureReform(ctx context.Context, o *options, bare *map[string][]float64) error {
	if *bare == nil {
		*bare = map[string][]float64{}
	}
	for range o.rounds {
		if err := runReform(ctx, o, "reform", route, func(l reformLine) {
			name := change(l.From, l.To)
			(*bare)[name] = append((*bare)[name], l.Seconds)
		}); err != nil {
			return err
		}
	}
	return nil
}

// commitCase is one way to train whose steps are timed.
type commitCase struct {
	name    string
	ranks   int
	ballast int // megabytes of trained parameters
	steps   int
	// stepTime is the minimum time of a step. The rest of a step is idle, as it is
	// while a GPU computes.
	stepTime time.Duration
}

var commitCases = []commitCase{
	{"one rank, 3 kB", 1, 0, costSteps, 0}, {"two ranks, 3 kB", 2, 0, costSteps, 0},
	{"one rank, 10 MB", 1, 10, 200, 0}, {"one rank, 100 MB", 1, 100, 50, 0},
	{"one rank, 10 MB, steps of 50 ms", 1, 10, 200, stepTime}, {"one rank, 100 MB, steps of 250 ms", 1, 100, 50, 5 * stepTime},
}

// Ways to run a case that are compared with torchrun's.
const withCommit, withoutCommit = "commit", "no commit"

// measureCommits times steps with a commit each, and without.
func measureCommits(ctx context.Context, o *options, steps *map[string][]float64) error {
	if *steps == nil {
		*steps = map[string][]float64{}
	}
	ways := []launcher{
		{Name: torchrun.Name, framework: train.Torch, command: torchrun.command, args: []string{"--commit-every=0"}},
		koloRun(withoutCommit, train.Torch, "--commit-every=0"), koloRun(withCommit, train.Torch, "--commit-every=1"),
	}
	for round := range o.rounds {
		for _, c := range commitCases {
			for _, way := range ways {
				ms, err := stepOf(ctx, o, way, c.ranks, c.steps, fmt.Sprintf("--ballast=%d", c.ballast), fmt.Sprintf("--step-time=%g", c.stepTime.Seconds()))
				if err != nil {
					return err
				}
				name := c.name + ", " + way.Name
				(*steps)[name] = append((*steps)[name], ms)
				progress("%s, round %d: %.3f ms a step", name, round+1, ms)
			}
			if err := o.keep(); err != nil {
				return err
			}
		}
	}
	return nil
}

// reformLine is a line of reform.py.
type reformLine struct {
	From, To int
	MB       int `json:"mb"`
	Seconds  float64
}

func runReform(ctx context.Context, o *options, what string, sizes []int, take func(reformLine)) error {
	list := strings.Trim(strings.ReplaceAll(fmt.Sprint(sizes), " ", ","), "[]")
	cmd := exec.CommandContext(ctx, o.python(train.Torch), filepath.Join(o.root, "e2e/bench/reform.py"), what, list)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var l reformLine
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return fmt.Errorf("%q: %w", lines.Text(), err)
		}
		progress("%s: %s", what, lines.Text())
		take(l)
	}
	return nil
}

// python returns the interpreter of a framework.
func (o *options) python(f train.Framework) string { return filepath.Join(o.root, f.Python) }

// goRun runs a package's own benchmark, which prints a table.
func goRun(ctx context.Context, o *options, pkg string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"run", pkg}, args...)...)
	cmd.Dir = o.root
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return string(out), err
}
