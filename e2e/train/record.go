// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package train contains the training scripts of the tests, train.py for Horovod and
// torch_train.py for PyTorch in process. It reads their records, and checks whether
// training was right: no step skipped, no sample lost or repeated.
package train

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// An Event is one line of a script's record (see record.py): a process started ("start"), a
// ring began to train ("ring"), a step was done ("step"), training is complete ("done").
type Event struct {
	Kind string  `json:"kolo"`
	T    float64 `json:"t"`
	PID  int     `json:"pid"`
	Step int     `json:"step"`
	// Begun is when the step began, 0 if the script does not record it.
	Begun float64 `json:"begun"`
	Rank  int     `json:"rank"`
	Size  int     `json:"size"`
	// Epoch is the number of epochs completed before; in "done" events, of all epochs.
	Epoch int `json:"epoch"`
	// Generation is the ring's number, 0 if the script does not know it.
	Generation int     `json:"generation"`
	Loss       float64 `json:"loss"`
	// Samples is the total number of samples used, in "done" events.
	Samples int `json:"samples"`
	// Unused and Again are set in "epoch" events. Unused is the number of samples that the
	// weights have not counted in this epoch, Again the number of repeated uses.
	Unused int `json:"unused"`
	Again  int `json:"again"`
	// Indices are the samples of one step on one rank.
	Indices []int `json:"indices"`
}

// Time returns the time of the event, exact to the microsecond.
func (e Event) Time() time.Time { return time.UnixMicro(int64(e.T * 1e6)) }

// A Record is everything that the processes of a job have written so far, in chronological
// order.
type Record []Event

// Read reads the files that a script wrote with --records. If the directory does not exist,
// the record is empty, since nothing has happened yet.
func Read(dir string) (Record, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	var record Record
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		events, err := Parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		record = append(record, events...)
	}
	slices.SortStableFunc(record, func(a, b Event) int { return cmp.Compare(a.T, b.T) })
	return record, nil
}

// Parse finds the script's lines in text, which may be a log with other lines and with
// prefixes such as horovodrun's. It omits a last line without a newline, which is still
// being written.
func Parse(text []byte) (Record, error) {
	var record Record
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		_, object, found := bytes.Cut(lines.Bytes(), []byte(`{"kolo": `))
		if !found {
			continue
		}
		var e Event
		if err := json.Unmarshal(append([]byte(`{"kolo": `), object...), &e); err != nil {
			return nil, fmt.Errorf("%q: %w", lines.Text(), err)
		}
		record = append(record, e)
	}
	return record, lines.Err()
}

// Where returns the events of a kind for which keep returns true (nil: all of them).
func (r Record) Where(kind string, keep func(Event) bool) Record {
	var events Record
	for _, e := range r {
		if e.Kind == kind && (keep == nil || keep(e)) {
			events = append(events, e)
		}
	}
	return events
}

// Leading returns the steps of rank 0.
func (r Record) Leading() Record {
	return r.Where("step", func(e Event) bool { return e.Rank == 0 })
}

// Last returns the latest step of rank 0, or the zero Event if there is none.
func (r Record) Last() Event {
	steps := r.Leading()
	if len(steps) == 0 {
		return Event{}
	}
	return steps[len(steps)-1]
}

// Sizes returns the sizes of the rings that trained, in order.
func (r Record) Sizes() []int {
	var sizes []int
	for _, e := range r.Leading() {
		sizes = append(sizes, e.Size)
	}
	return slices.Compact(sizes)
}

// PIDs returns the processes that did steps as the given rank, in the order of their first
// step.
func (r Record) PIDs(rank int) []int {
	var pids []int
	for _, e := range r.Where("step", nil) {
		if e.Rank == rank && !slices.Contains(pids, e.PID) {
			pids = append(pids, e.PID)
		}
	}
	return pids
}

// CheckConsecutive returns an error unless rank 0's steps are 1, 2, 3 … with
// none missing and none repeated.
func (r Record) CheckConsecutive() error {
	for i, e := range r.Leading() {
		if e.Step != i+1 {
			return fmt.Errorf("step %d came as number %d (ring of %d, pid %d)", e.Step, i+1, e.Size, e.PID)
		}
	}
	return nil
}

// CheckSize returns an error unless the last ten steps of rank 0 were in rings of n, and
// all of them were made after since.
func (r Record) CheckSize(n int, since time.Time) error {
	steps := r.Leading()
	if len(steps) < 10 {
		return fmt.Errorf("%d steps done", len(steps))
	}
	for _, e := range steps[len(steps)-10:] {
		if e.Size != n || e.Time().Before(since) {
			return fmt.Errorf("the ring had %d ranks at step %d", e.Size, e.Step)
		}
	}
	return nil
}

// CheckRollbacks returns an error if training ever resumed from before the last commit, or
// skipped a step. The argument every is the number of steps from one commit to the next.
// The check covers all ranks, because rank 0 may die before it has recorded a step that
// others have done.
//
// This check also detects two rings of one job that train at the same time, because the
// numbers of their steps go back and forth.
func (r Record) CheckRollbacks(every int) error {
	last := Event{}
	for _, e := range r.Where("step", nil) {
		// The commit after the last step may be the one that failed.
		committed := (last.Step - 1) / every * every
		if last.Step == 0 {
			committed = 0
		}
		if e.Step > last.Step+1 || e.Step <= committed {
			return fmt.Errorf("step %d (rank %d of %d, pid %d) followed step %d (rank %d of %d, pid %d), with a commit every %d",
				e.Step, e.Rank, e.Size, e.PID, last.Step, last.Rank, last.Size, last.PID, every)
		}
		last = e
	}
	return nil
}

// CheckSamples returns an error unless each sample was used exactly once in every complete
// epoch. The argument samples is the number of all samples. After training is done, every
// epoch that was begun must be complete. Before that, the last epoch need not be.
func (r Record) CheckSamples(samples int) error {
	used := map[int][]int{}
	for _, e := range r.Where("step", nil) {
		used[e.Epoch] = append(used[e.Epoch], e.Indices...)
	}
	epochs := slices.Sorted(maps.Keys(used))
	if len(epochs) == 0 {
		return errors.New("no epoch is complete")
	}
	last, done := epochs[len(epochs)-1], r.Where("done", nil)
	switch {
	case len(done) == 0 && len(epochs) == 1:
		return errors.New("no epoch is complete")
	case len(done) == 0:
		epochs = epochs[:len(epochs)-1]
	case !slices.ContainsFunc(done, func(e Event) bool { return e.Epoch > last }):
		slices.Sort(used[last])
		return fmt.Errorf("training ended in the middle of epoch %d: %d of %d samples", last, len(slices.Compact(used[last])), samples)
	}
	for _, epoch := range epochs {
		indices := slices.Sorted(slices.Values(used[epoch]))
		for i := range max(samples, len(indices)) {
			switch {
			case i >= len(indices) || i < samples && indices[i] > i:
				return fmt.Errorf("epoch %d: sample %d was not used", epoch, i)
			case i >= samples || indices[i] < i:
				return fmt.Errorf("epoch %d: sample %d was used twice", epoch, indices[i])
			}
		}
	}
	return nil
}

// CheckLoss returns an error unless the loss at the end is less than half of the loss at
// the beginning. Each is the mean over ten steps.
func (r Record) CheckLoss() error {
	steps := r.Leading()
	if len(steps) < 20 {
		return fmt.Errorf("only %d steps", len(steps))
	}
	first, last := meanLoss(steps[:10]), meanLoss(steps[len(steps)-10:])
	if last > first/2 {
		return fmt.Errorf("the loss was %.4f at first and is %.4f in the end", first, last)
	}
	return nil
}

func meanLoss(steps Record) float64 {
	var sum float64
	for _, e := range steps {
		sum += e.Loss
	}
	return sum / float64(len(steps))
}

// A Resize is a change of the ring as its processes saw it.
type Resize struct {
	From, To int
	// Before is the last step of the old ring, After the first of the new one.
	Before, After Event
}

// Gap returns the time in which no rank trained.
func (z Resize) Gap() time.Duration { return z.After.Time().Sub(z.Before.Time()) }

// Resizes returns the changes of the ring's size. The gap ends with the first step in the
// new ring, so it includes the duration of that step.
func (r Record) Resizes() []Resize {
	var resizes []Resize
	steps := r.Leading()
	for i := 1; i < len(steps); i++ {
		if steps[i].Size != steps[i-1].Size {
			resizes = append(resizes, Resize{steps[i-1].Size, steps[i].Size, steps[i-1], steps[i]})
		}
	}
	return resizes
}
