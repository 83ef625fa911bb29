// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/e2e/train"
)

// byHand is the reference for whole runs: the script is started once for each rank, as a user
// could do by hand.
var byHand = launcher{Name: "by-hand", framework: train.Torch, command: peerCommand("by-hand")}

// byHandPeer starts ranks of a group that never changes.
type byHandPeer struct{ port, ranks int }

func (p *byHandPeer) begin(_ string, _ []string, _, most int) (_ *exec.Cmd, err error) {
	p.ranks = most
	p.port, err = freePort()
	return nil, err
}

func (p *byHandPeer) node(command []string, number int) *exec.Cmd {
	cmd := exec.Command(command[0], command[1:]...) //nolint:noctx // ended by a signal of its own
	// A torch built without libuv cannot serve the store with it.
	cmd.Env = append(os.Environ(), "USE_LIBUV=0", "MASTER_ADDR=127.0.0.1", fmt.Sprintf("MASTER_PORT=%d", p.port), fmt.Sprintf("RANK=%d", number),
		fmt.Sprintf("WORLD_SIZE=%d", p.ranks), "LOCAL_RANK="+strconv.Itoa(number), fmt.Sprintf("LOCAL_WORLD_SIZE=%d", p.ranks), "OMP_NUM_THREADS=1")
	return cmd
}

// idealSteps is the number of steps of the reference.
const idealSteps = 40

// idealShare returns the productive share of a short run without launcher, commits and events:
// what this machine allows at this time.
func idealShare(ctx context.Context, o *options) (float64, error) {
	run, err := runOne(ctx, o, runLauncher{byHand, true}, nil, idealSteps, 0)
	if err == nil && run.Ended != "" {
		err = errors.New(run.Ended)
	}
	if err != nil {
		return 0, fmt.Errorf("the reference without launcher: %w", err)
	}
	return run.Productive(), nil
}

// Estimates for planned.
const (
	startEstimate = 7 * time.Second  // from the command to the first step
	eventEstimate = 10 * time.Second // lost by a launcher that restarts everything
	costEstimate  = 40 * time.Second // to measure the cost of a checkpoint
)

// planned returns how long runs of so many launchers take.
func planned(o *options, launchers int) time.Duration {
	total := costEstimate
	for _, every := range o.every {
		events := len(newSchedule(o.seed, every, time.Duration(o.steps)*fullStep))
		steps := o.steps
		if every == 0 {
			steps = stepsWithout(steps)
		}
		for range launchers {
			total += startEstimate + time.Duration(steps)*fullStep + time.Duration(events)*eventEstimate
		}
		for range launchers + 1 {
			total += startEstimate + idealSteps*fullStep
		}
	}
	return total
}

// A meter measures how many threads of this machine use a CPU or wait for one.
type meter struct{ sum, samples int }

func (m *meter) sample() error {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return err
	}
	// The fourth field is "running/all". This thread is one of them.
	running, _, _ := strings.Cut(strings.Fields(string(text))[3], "/")
	n, err := strconv.Atoi(running)
	if err != nil {
		return fmt.Errorf("/proc/loadavg: %w", err)
	}
	m.sum += max(0, n-1)
	m.samples++
	return nil
}

func (m *meter) mean() float64 { return float64(m.sum) / float64(max(1, m.samples)) }
