// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package stacks

import (
	"encoding/json"
	"fmt"
)

// Report is what the processes of one allocation do.
type Report struct {
	// Generation and Size are those of the ring that the allocation knows, 0 without one.
	Generation uint64 `json:"generation,omitempty"`
	Size       int    `json:"size,omitempty"`
	Ranks      []Rank `json:"ranks"`
	// Dropped is the number of ranks left out of Ranks because there were too many.
	Dropped int `json:"dropped,omitempty"`
}

// Rank is one training process.
type Rank struct {
	// Rank is the process's rank in its ring, or NoRank.
	Rank int `json:"rank"`
	Slot int `json:"slot"`
	// Step is the last step that the process has reported, 0 if it has reported none.
	Step int64 `json:"step,omitempty"`
	Process
	// Workers are the process's descendants, such as the workers of a data loader.
	Workers []Process `json:"workers,omitempty"`
	// DroppedWorkers is the number of descendants left out of Workers.
	DroppedWorkers int `json:"dropped_workers,omitempty"`
}

// NoRank is the rank of a process that waits for its place in a ring.
const NoRank = -1

// State is the state of a process, in the words of ps(1).
type State string

// The states of a process.
const (
	Running  State = "running"
	Sleeping State = "sleeping"
	// Stopped is the state after SIGSTOP.
	Stopped State = "stopped"
	// Traced is the state of a process that a debugger has stopped.
	Traced State = "traced"
	// Disk is a sleep that no signal interrupts, such as in a system call on a file system
	// that does not answer.
	Disk State = "uninterruptible"
	Dead State = "dead"
)

// Process is what a process does.
type Process struct {
	PID int `json:"pid"`
	// Command is the name of the program as the kernel knows it.
	Command string `json:"command,omitempty"`
	State   State  `json:"state"`
	// Syscall is the system call in which the main thread is, and Wchan the kernel's
	// function in which it waits. Both are empty if unknown.
	Syscall string `json:"syscall,omitempty"`
	Wchan   string `json:"wchan,omitempty"`
	// Source is the program that has shown Threads: FromPySpy, FromFaulthandler, or "" if
	// there are none.
	Source  string   `json:"source,omitempty"`
	Threads []Thread `json:"threads,omitempty"`
	// Missing states why there are no Threads.
	Missing string `json:"missing,omitempty"`
}

// The sources of stacks.
const (
	FromPySpy        = "py-spy"
	FromFaulthandler = "faulthandler"
)

// Main returns the process's main thread, or nil if there is none.
func (p *Process) Main() *Thread {
	for i := range p.Threads {
		if p.Threads[i].Main {
			return &p.Threads[i]
		}
	}
	return nil
}

// Thread is a thread that runs Python code.
type Thread struct {
	Name string `json:"name,omitempty"`
	Main bool   `json:"main,omitempty"`
	// Frames has the most recent call first.
	Frames []Frame `json:"frames"`
	// Cut states that the outermost frames were left out.
	Cut bool `json:"cut,omitempty"`
}

// Frame is a call of a Python function.
type Frame struct {
	Function string `json:"function"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
}

// Decode reads an allocation's report and bounds it.
func Decode(data []byte) (Report, error) {
	var r Report
	if err := json.Unmarshal(data, &r); err != nil {
		return Report{}, fmt.Errorf("report of stacks: %w", err)
	}
	r.bound()
	return r, nil
}
