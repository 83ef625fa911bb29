// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package stall

// Activity describes what a process did while its host watched it.
type Activity string

// The activities of the process of a rank, including its child processes. If the host does
// not answer, the activity is unknown, which is the empty text.
const (
	// Stopped means that a signal has stopped all threads of the process or of one of its
	// child processes.
	Stopped Activity = "stopped"
	// Disk means that a thread always waited for a disk or a file server, and that the
	// process used hardly any CPU time.
	Disk Activity = "disk"
	// Idle means that the process used hardly any CPU time: it hangs, or waits for another
	// process.
	Idle Activity = "idle"
	// Busy means that the process used CPU time, waited for a CPU, or was held by a
	// debugger.
	Busy Activity = "busy"
)

// Verdict is the result of comparing the processes of a ring that makes no steps.
type Verdict struct {
	// Causes lists the ranks that keep the others from making steps. If it is empty, the
	// cause is unknown.
	Causes []int
	// Stopped states that a signal has stopped the causes.
	Stopped bool
	// Patient states that a process may still be working, so that the ring should get more
	// time.
	Patient bool
	// Why describes the causes, for messages. Without causes, it describes the whole ring.
	Why string
}

// Judge compares the processes of a ring, by rank. A process that waits for others is idle
// with Gloo, but may be busy with NCCL. So only a process that is stopped or waits for a
// disk is known to be the cause. If all are idle, the process that hangs is found when the
// connections are cut, because it alone does not leave the ring.
func Judge(ranks []Activity) Verdict {
	of := map[Activity][]int{}
	for rank, a := range ranks {
		of[a] = append(of[a], rank)
	}
	switch {
	case of[Stopped] != nil:
		return Verdict{Causes: of[Stopped], Stopped: true, Why: "stopped by a signal"}
	case of[Busy] != nil:
		return Verdict{Patient: true, Why: "a process uses CPU time"}
	case of[Disk] != nil:
		return Verdict{Causes: of[Disk], Patient: true, Why: "waiting for a disk or a file server"}
	case len(of[Idle]) == len(ranks):
		return Verdict{Why: "all processes wait, and use hardly any CPU time"}
	default:
		return Verdict{Patient: true, Why: "it is unknown what the processes do"}
	}
}
