// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package stacks

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

func TestSummarize(t *testing.T) {
	waits, loads, worker := at(Sleeping, "all_reduce", "main"), at(Sleeping, "__next__", "main"), at(Disk, "read", "main")
	loads.Threads = append(loads.Threads, Thread{Name: "Thread-1"})
	ranks := []Rank{{Rank: 0, Process: waits}, {Rank: 1, Process: waits}, {Rank: 3, Process: loads, Workers: []Process{worker, worker, at(Sleeping, "wait"), at(Sleeping, "other")}}, {Rank: 4, Process: waits}}
	s := Summarize(ranks, []int{2, 5, 6})
	must.Eq(t, "2, 5, 6", s.Silent)
	must.Len(t, 2, s.Groups)
	odd, rest := s.Groups[0], s.Groups[1]
	must.Eq(t, Alike{Ranks: "3", Count: 1, Suspect: true, Process: at(Sleeping, "__next__", "main"), Workers: odd.Workers}, odd)
	must.Len(t, summaryWorkers, odd.Workers)
	must.Eq(t, []string{"0, 1, 4"}, []string{rest.Ranks})
	must.Eq(t, 3, rest.Count)
	must.False(t, rest.Suspect)
	must.Len(t, 2, ranks[2].Threads, must.Sprint("the ranks are not changed"))
	must.Eq(t, &Summary{}, Summarize(nil, nil))
}

// A summary is bounded in all its parts and in total, also if hosts and agents lie.
func TestSummary_Bound(t *testing.T) {
	long := strings.Repeat("<\x1b", 5000)
	process := Process{PID: -1, Command: long, State: State(long), Syscall: long, Wchan: long, Source: long, Missing: long}
	for range 100 {
		thread := Thread{Name: long, Main: true}
		for range 200 {
			thread.Frames = append(thread.Frames, Frame{Function: long, File: long, Line: -5})
		}
		process.Threads = append(process.Threads, thread)
	}
	s := &Summary{Dropped: -4, Silent: long}
	for i := range 20 {
		s.Groups = append(s.Groups, Alike{Ranks: long, Count: -i, Process: process, Workers: []Process{process, process, process}})
	}
	s.Bound()
	text, err := json.Marshal(s)
	must.NoError(t, err)
	must.LessEq(t, MaxSummary, len(text))
	must.StrNotContains(t, string(text), `\u001b`)
	must.Eq(t, 20, len(s.Groups)+s.Dropped)

	s = &Summary{}
	for i := range 20 {
		s.Groups = append(s.Groups, Alike{Ranks: Ranges([]int{i}), Count: 1, Process: Process{Threads: []Thread{{Main: true, Frames: make([]Frame, 50)}}}})
	}
	s.Bound()
	must.Len(t, summaryGroups, s.Groups)
	must.Eq(t, 12, s.Dropped)
	must.Eq(t, "0", s.Groups[0].Ranks, must.Sprint("the oddest"))
	must.Eq(t, "19", s.Groups[summaryGroups-1].Ranks, must.Sprint("the healthy ones"))
	must.Len(t, summaryFrames, s.Groups[0].Main().Frames)
	must.True(t, s.Groups[0].Main().Cut)
	before, err := json.Marshal(s)
	must.NoError(t, err)
	s.Bound()
	after, err := json.Marshal(s)
	must.NoError(t, err)
	must.Eq(t, string(before), string(after))
}

func TestShortPath(t *testing.T) {
	for file, want := range map[string]string{"": "", "a.py": "a.py", "/a.py": "/a.py", "app/a.py": "app/a.py", "/home/me/app/a.py": "app/a.py", "<string>": "<string>", "/x/": "x/"} {
		must.Eq(t, want, shortPath(file))
	}
	r := Rank{Process: Process{Threads: []Thread{{Main: true, Frames: []Frame{{Function: "f", File: "/home/me/app/a.py"}}}}}}
	whole := r.Main().Frames[0]
	r.Brief()
	must.Eq(t, "app/a.py", r.Main().Frames[0].File)
	must.Eq(t, "/home/me/app/a.py", whole.File)
}

func TestRanges(t *testing.T) {
	for want, numbers := range map[string][]int{
		"": nil, "5": {5}, "1, 2": {2, 1}, "0-2": {0, 1, 2}, "0-4, 6, 7": {0, 1, 2, 3, 4, 6, 7}, "1, 3": {3, 1, 3, 1},
	} {
		must.Eq(t, want, Ranges(numbers))
	}
}

// FuzzSummary bounds any summary that an agent may send.
func FuzzSummary(f *testing.F) {
	f.Add([]byte(`{"groups":[{"ranks":"5","count":1,"suspect":true,"pid":7,"state":"stopped","threads":[{"main":true,"frames":[{"function":"f","file":"a.py","line":3}]}],"workers":[{"pid":8}]}],"silent":"1"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var s Summary
		if json.Unmarshal(text, &s) != nil {
			t.Skip("no summary")
		}
		s.Bound()
		text, err := json.Marshal(&s)
		must.NoError(t, err)
		must.LessEq(t, MaxSummary, len(text))
		must.LessEq(t, summaryGroups, len(s.Groups))
	})
}
