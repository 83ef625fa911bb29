// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package stacks

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxSummary bounds a Summary, in bytes of its JSON.
const MaxSummary = 64 << 10

// The other limits of a Summary.
const (
	summaryGroups  = 8
	summaryFrames  = 16 // of a main thread
	summaryWorkers = 2  // of a rank
)

// Summary is what the ranks of a ring did at one moment, small enough to be kept.
type Summary struct {
	// Groups has the odd ranks first; see the function Groups.
	Groups []Alike `json:"groups"`
	// Dropped is the number of groups left out of Groups because there were too many.
	Dropped int `json:"dropped,omitempty"`
	// Silent are the ranks whose agents have not answered in time, such as "3, 5-7".
	Silent string `json:"silent,omitempty"`
}

// Alike describes ranks that did the same.
type Alike struct {
	Ranks   string `json:"ranks"` // such as "0-4, 6"
	Count   int    `json:"count"` // number of these ranks
	Suspect bool   `json:"suspect,omitempty"`
	// Process is the process of the first of these ranks, with its main thread only.
	Process
	// Workers are child processes of this rank, one for each group of equal ones.
	Workers []Process `json:"workers,omitempty"`
}

// Summarize returns the summary of the given ranks. silent are the ranks that are unknown.
func Summarize(ranks []Rank, silent []int) *Summary {
	s := &Summary{Silent: Ranges(silent)}
	for _, g := range Groups(ranks, func(r *Rank) *Process { return &r.Process }) {
		var numbers []int
		for i := range g.Members {
			numbers = append(numbers, g.Members[i].Rank)
		}
		first := g.Members[0]
		first.Brief()
		s.Groups = append(s.Groups, Alike{Ranks: Ranges(numbers), Count: len(numbers), Suspect: g.Suspect, Process: first.Process, Workers: first.Workers})
	}
	s.Bound()
	return s
}

// Brief reduces the rank to the parts that a Summary has, within the limits of a Summary.
func (r *Rank) Brief() {
	r.brief(summaryFrames)
	var workers []Process
	for _, g := range Groups(r.Workers, func(p *Process) *Process { return p }) {
		if len(workers) < summaryWorkers {
			p := g.Members[0]
			p.brief(summaryFrames)
			workers = append(workers, p)
		}
	}
	r.Workers, r.DroppedWorkers = workers, 0
}

// brief drops all but the innermost frames of the main thread, and the directories of their
// files but the last, because a Summary has more readers than a Report. It bounds the rest.
func (p *Process) brief(frames int) {
	main := p.Main()
	if main == nil {
		p.Threads = nil
	} else {
		t := *main
		if len(t.Frames) > frames {
			t.Frames, t.Cut = t.Frames[:frames], true
		}
		t.Frames = slices.Clone(t.Frames)
		for i := range t.Frames {
			t.Frames[i].File = shortPath(t.Frames[i].File)
		}
		p.Threads = []Thread{t}
	}
	p.bound()
}

// shortPath returns the name of a file with its last directory.
func shortPath(file string) string {
	name := strings.LastIndexByte(file, '/')
	return file[strings.LastIndexByte(file[:max(name, 0)], '/')+1:]
}

// Bound cuts the summary to its limits and makes its texts printable. Call it for a summary
// that a task may have written.
func (s *Summary) Bound() {
	if n := len(s.Groups) - summaryGroups; n > 0 { // the last is the healthy one
		s.Groups, s.Dropped = append(s.Groups[:summaryGroups-1:summaryGroups-1], s.Groups[len(s.Groups)-1]), max(s.Dropped, 0)+n
	}
	s.Silent, s.Dropped = head(s.Silent), max(s.Dropped, 0)
	for frames := summaryFrames; ; frames /= 2 {
		for i := range s.Groups {
			s.Groups[i].cut(frames)
		}
		switch {
		case s.size() <= MaxSummary:
			return
		case frames == 0:
			s.Groups, s.Dropped = nil, s.Dropped+len(s.Groups)
			return
		}
	}
}

func (a *Alike) cut(frames int) {
	a.Ranks, a.Count = head(a.Ranks), max(a.Count, 0)
	a.brief(frames)
	a.Workers = a.Workers[:min(len(a.Workers), summaryWorkers)]
	for i := range a.Workers {
		a.Workers[i].brief(frames)
	}
}

// size returns the length of the summary's JSON.
func (s *Summary) size() int {
	text, err := json.Marshal(s)
	if err != nil {
		return MaxSummary + 1 // impossible: each field can be marshaled
	}
	return len(text)
}

// Ranges returns numbers in their order, such as "0-4, 6, 7", without repetitions.
func Ranges(numbers []int) string {
	numbers = slices.Compact(slices.Sorted(slices.Values(numbers)))
	var parts []string
	for i := 0; i < len(numbers); {
		end := i
		for end+1 < len(numbers) && numbers[end+1] == numbers[end]+1 {
			end++
		}
		switch from, to := numbers[i], numbers[end]; {
		case to > from+1:
			parts = append(parts, fmt.Sprintf("%d-%d", from, to))
		case to > from:
			parts = append(parts, strconv.Itoa(from), strconv.Itoa(to))
		default:
			parts = append(parts, strconv.Itoa(from))
		}
		i = end + 1
	}
	return strings.Join(parts, ", ")
}
