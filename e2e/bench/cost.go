// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/e2e/train"
)

// Cost holds the step times, memory and processor use of training under each
// launcher, while the number of processes stays the same.
type Cost struct {
	// StepMS are medians over costSteps steps of two ranks that only compute, in
	// milliseconds.
	StepMS map[string][]float64 `json:"step_ms"`
	// AloneMS are the medians for one rank, which can also run without a launcher.
	AloneMS map[string][]float64 `json:"alone_ms"`
	// MemoryMB is the resident memory of the launcher's process, and AnonymousMB
	// the part of it that is not backed by a file such as its own program.
	// ProcessorPercent is the share of one core used by the launcher and those of
	// its children that have ended (not the training processes).
	MemoryMB         map[string][]float64 `json:"memory_mb"`
	AnonymousMB      map[string][]float64 `json:"anonymous_mb"`
	ProcessorPercent map[string][]float64 `json:"processor_percent"`
}

// tick is the unit of times in /proc on Linux.
const tick = 10 * time.Millisecond

// costSteps is the number of steps that are timed.
const costSteps = 1000

func measureCost(ctx context.Context, o *options, cost **Cost) error {
	if *cost == nil {
		*cost = &Cost{
			StepMS: map[string][]float64{}, AloneMS: map[string][]float64{}, MemoryMB: map[string][]float64{},
			AnonymousMB: map[string][]float64{}, ProcessorPercent: map[string][]float64{},
		}
	}
	c := *cost
	for round := range o.rounds {
		for _, l := range append([]launcher{none}, o.those(launchers)...) {
			step, err := stepOf(ctx, o, l, 1, costSteps)
			if err != nil {
				return err
			}
			c.AloneMS[l.Name] = append(c.AloneMS[l.Name], step)
			progress("%s, one rank, round %d: %.3f ms a step", l.Name, round+1, step)
		}
		for _, l := range o.those(launchers) {
			if err := c.measure(ctx, o, l, round); err != nil {
				return err
			}
		}
	}
	return nil
}

// stepOf returns the time of a step with that many ranks, in milliseconds.
func stepOf(ctx context.Context, o *options, l launcher, ranks, steps int, args ...string) (float64, error) {
	s, err := start(l, o, localSlots(ranks), append([]string{"--step-time=0"}, args...)...)
	if err != nil {
		return 0, err
	}
	defer func() { _ = s.Stop() }()
	if err := s.steady(ctx, ranks, 2*time.Second); err != nil {
		return 0, s.fail(err)
	}
	step, err := s.stepMS(ctx, steps)
	if err != nil {
		return 0, s.fail(err)
	}
	return step, nil
}

func (c *Cost) measure(ctx context.Context, o *options, l launcher, round int) error {
	s, err := start(l, o, localSlots(2), "--step-time=0")
	if err != nil {
		return err
	}
	defer func() { _ = s.Stop() }()
	if err := s.steady(ctx, 2, 2*time.Second); err != nil {
		return s.fail(err)
	}
	begun, used := time.Now(), processorTime(s.PID())
	step, err := s.stepMS(ctx, costSteps)
	if err != nil {
		return s.fail(err)
	}
	memory, anonymous := memoryMB(s.PID(), "VmRSS:"), memoryMB(s.PID(), "RssAnon:")
	share := (processorTime(s.PID()) - used).Seconds() / time.Since(begun).Seconds() * 100
	c.StepMS[l.Name] = append(c.StepMS[l.Name], step)
	c.MemoryMB[l.Name] = append(c.MemoryMB[l.Name], memory)
	c.AnonymousMB[l.Name] = append(c.AnonymousMB[l.Name], anonymous)
	c.ProcessorPercent[l.Name] = append(c.ProcessorPercent[l.Name], share)
	progress("%s, round %d: %.3f ms a step; the launcher has %.1f MB (%.1f anonymous) and takes %.1f %% of a core", l.Name, round+1, step, memory, anonymous, share)
	return nil
}

// stepMS returns the median time of the next steps.
func (s *session) stepMS(ctx context.Context, count int) (float64, error) {
	from := len(s.Record.Leading())
	_, err := s.Wait(ctx, fmt.Sprintf("%d steps", count), 2*time.Minute, func(r train.Record) *train.Event {
		if steps := r.Leading(); len(steps) > from+count {
			return &steps[len(steps)-1]
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	var steps []float64
	leading := s.Record.Leading()[from:]
	for i := 1; i <= count; i++ {
		steps = append(steps, (leading[i].T-leading[i-1].T)*1000)
	}
	return median(steps), nil
}

// memoryMB returns the value of a line in /proc/pid/status, 0 if the process is
// gone.
func memoryMB(pid int, field string) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			kb, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb * 1024 / 1e6
		}
	}
	return 0
}

// processorTime returns the processor time of a process and its ended children.
func processorTime(pid int) time.Duration {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	// User and system time, and the same of children: fields 14 to 17. The third
	// field is the first after the name in parentheses.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	ticks := 0
	for _, field := range fields[11:15] {
		n, _ := strconv.Atoi(field)
		ticks += n
	}
	return time.Duration(ticks) * tick
}

// median returns the median of values, which must not be empty.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
