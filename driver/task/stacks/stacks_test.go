// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package stacks

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/shoenig/test/must"
)

const dumped = `Thread 0x00007febb50ea6c0 (most recent call first):
  File "<stdin>", line 5 in work
  File "/usr/lib/python3.11/threading.py", line 982 in run

Current thread 0x00007febb5e47b80 (most recent call first):
  File "/app/a, line 1 in b.py", line 8 in <module>

`

func TestParseFaulthandler(t *testing.T) {
	frame := []Frame{{Function: "f", File: "a.py", Line: 1}}
	for name, c := range map[string]struct {
		text string
		want []Thread
	}{
		"two threads": {dumped, []Thread{
			{Main: true, Frames: []Frame{{Function: "<module>", File: "/app/a, line 1 in b.py", Line: 8}}},
			{Frames: []Frame{{Function: "work", File: "<stdin>", Line: 5}, {Function: "run", File: "/usr/lib/python3.11/threading.py", Line: 982}}},
		}},
		"nothing":                 {"", nil},
		"names, as of 3.14":       {"Current thread 0x00 [python3] (most recent call first):\n  File \"a.py\", line 1 in f\n", []Thread{{Name: "python3", Main: true, Frames: frame}}},
		"without the GIL":         {"Stack (most recent call first):\n  File \"a.py\", line 1 in f\n", []Thread{{Main: true, Frames: frame}}},
		"in no Python code":       {"Current thread 0x00 (most recent call first):\n  <no Python frame>\n", []Thread{{Main: true}}},
		"deep":                    {"Current thread 0x00 (most recent call first):\n  File \"a.py\", line 1 in f\n  ...\n", []Thread{{Main: true, Frames: frame, Cut: true}}},
		"unknown parts":           {"Current thread 0x00 (most recent call first):\n  File ???, line ??? in ???\n", []Thread{{Main: true, Frames: []Frame{{Function: "???", File: "???"}}}}},
		"too many threads":        {"...\nCurrent thread 0x00 (most recent call first):\n  File \"a.py\", line 1 in f\n", []Thread{{Main: true, Frames: frame}}},
		"a frame of no thread":    {"  File \"a.py\", line 1 in f\n", nil},
		"an end in the middle":    {"Current thread 0x00 (most recent call first):\n  File \"a.py\", li", []Thread{{Main: true}}},
		"two that are current":    {strings.Repeat("Current thread 0x00 (most recent call first):\n", 2), []Thread{{Main: true}, {}}},
		"control characters":      {"Current thread 0x00 (most recent call first):\n  File \"\x1b[2J\", line 1 in \u202ef\n", []Thread{{Main: true, Frames: []Frame{{Function: "\ufffdf", File: "\ufffd[2J", Line: 1}}}}},
		"a line number below 0":   {"Current thread 0x00 (most recent call first):\n  File \"a\", line -3 in f\n", []Thread{{Main: true, Frames: []Frame{{Function: "f", File: "a"}}}}},
		"what a script may print": {"step 5\nThread of thought\nloss 0.3, line 2\n", nil},
	} {
		t.Run(name, func(t *testing.T) { must.Eq(t, c.want, ParseFaulthandler(c.text)) })
	}
}

// The main thread is the last one in faulthandler's output, and is kept if other threads
// are cut.
func TestParseFaulthandler_Many(t *testing.T) {
	text := strings.Repeat("Thread 0x01 (most recent call first):\n"+strings.Repeat("  File \"a.py\", line 1 in f\n", 100), 100) +
		"Current thread 0x00 (most recent call first):\n  File \"" + strings.Repeat("d/", 500) + "a.py\", line 1 in main\n"
	threads := ParseFaulthandler(text)
	must.Len(t, maxThreads, threads)
	must.True(t, threads[0].Main)
	must.StrHasSuffix(t, "d/a.py", threads[0].Frames[0].File)
	must.StrHasPrefix(t, "…", threads[0].Frames[0].File)
	must.Len(t, maxFrames, threads[1].Frames)
	must.True(t, threads[1].Cut)
}

func TestParsePySpy(t *testing.T) {
	threads, err := ParsePySpy([]byte(`[
		{"pid": 5, "thread_id": 140435147564736, "thread_name": "Thread-1 (work)", "os_thread_id": 7, "active": false, "owns_gil": false,
		 "frames": [{"name": "Thread.run", "filename": "/usr/lib/threading.py", "module": null, "short_filename": "threading.py", "line": 982, "locals": null, "is_entry": false}], "process_info": null},
		{"pid": 5, "thread_id": 140435161070464, "thread_name": null, "os_thread_id": 5, "frames": [{"name": "<module>", "filename": "a.py", "line": 9}]}]`))
	must.NoError(t, err)
	must.Eq(t, []Thread{
		{Main: true, Frames: []Frame{{Function: "<module>", File: "a.py", Line: 9}}},
		{Name: "Thread-1 (work)", Frames: []Frame{{Function: "Thread.run", File: "/usr/lib/threading.py", Line: 982}}},
	}, threads)
	_, err = ParsePySpy([]byte("Permission Denied"))
	must.ErrorContains(t, err, "output of py-spy: ")
}

func TestDecode(t *testing.T) {
	many := Report{Size: -1, Ranks: make([]Rank, MaxRanks+3)}
	many.Ranks[0] = Rank{Rank: -7, Step: -1, Process: Process{Missing: strings.Repeat("a\n", 500)}, Workers: make([]Process, MaxWorkers+1)}
	text, err := json.Marshal(many)
	must.NoError(t, err)
	r, err := Decode(text)
	must.NoError(t, err)
	must.Len(t, MaxRanks, r.Ranks)
	must.Eq(t, 3, r.Dropped)
	must.Eq(t, 0, r.Size)
	must.Eq(t, NoRank, r.Ranks[0].Rank)
	must.Eq(t, 1, r.Ranks[0].DroppedWorkers)
	must.StrNotContains(t, r.Ranks[0].Missing, "\n")
	_, err = Decode([]byte("sh: not found"))
	must.ErrorContains(t, err, "report of stacks: ")
}

// at returns a process with a stack.
func at(state State, functions ...string) Process {
	p := Process{State: state, Source: FromFaulthandler, Threads: []Thread{{Main: true}}}
	for i, name := range functions {
		p.Threads[0].Frames = append(p.Threads[0].Frames, Frame{Function: name, File: "a.py", Line: i + 1})
	}
	return p
}

func TestGroups(t *testing.T) {
	collective, loading := at(Sleeping, "all_reduce", "main"), at(Sleeping, "__next__", "main")
	running, stopped := at(Running, "all_reduce", "main"), at(Stopped, "all_reduce", "main")
	unknown := Process{State: Running, Missing: "no handler"}
	fromPySpy := at(Sleeping, "Group.all_reduce", "main")
	fromPySpy.Source, fromPySpy.Threads = FromPySpy, append(fromPySpy.Threads, Thread{Name: "Thread-1"})
	for name, c := range map[string]struct {
		all  []Process
		want string
	}{
		"no process":                         {nil, ""},
		"all alike":                          {[]Process{collective, collective}, "[0 1]"},
		"one":                                {[]Process{loading}, "[0]"},
		"one differs":                        {[]Process{collective, collective, loading, collective}, "[2]? [0 1 3]"},
		"running and sleeping are alike":     {[]Process{collective, running, loading}, "[2]? [0 1]"},
		"a stopped one with the same stack":  {[]Process{collective, collective, stopped}, "[2]? [0 1]"},
		"a stopped one comes first":          {[]Process{loading, collective, collective, stopped}, "[3]? [0]? [1 2]"},
		"half and half":                      {[]Process{collective, loading, collective, loading}, "[0 2]? [1 3]?"},
		"all differ":                         {[]Process{collective, loading, stopped}, "[2]? [0]? [1]?"},
		"one is unknown":                     {[]Process{unknown, collective, collective}, "[0]? [1 2]"},
		"two groups of suspects":             {[]Process{collective, loading, unknown, loading, collective, collective}, "[2]? [1 3]? [0 4 5]"},
		"two sources and the other's thread": {[]Process{collective, fromPySpy}, "[0 1]"},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range c.all {
				c.all[i].PID = i
			}
			var got []string
			for _, g := range Groups(c.all, func(p *Process) *Process { return p }) {
				var members []int
				for _, m := range g.Members {
					members = append(members, m.PID)
				}
				mark := ""
				if g.Suspect {
					mark = "?"
				}
				got = append(got, fmt.Sprint(members)+mark)
			}
			must.Eq(t, c.want, strings.Join(got, " "))
		})
	}
}

// FuzzParse gives the parsers what a hostile task might write.
func FuzzParse(f *testing.F) {
	f.Add(dumped)
	f.Add(`[{"pid":5,"thread_name":"MainThread","os_thread_id":5,"frames":[{"name":"f","filename":"a.py","line":9}]}]`)
	f.Add(`{"generation":1,"size":2,"ranks":[{"rank":0,"slot":0,"pid":5,"state":"running","threads":[{"main":true,"frames":[{"function":"f"}]}],"workers":[{"pid":6}]}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		check := func(threads []Thread) {
			if len(threads) > maxThreads {
				t.Fatalf("%d threads", len(threads))
			}
			main := 0
			for _, thread := range threads {
				if thread.Main {
					main++
				}
				for _, f := range thread.Frames {
					for _, s := range []string{f.Function, f.File} {
						if len(s) > 4*maxText || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
							t.Fatalf("%q", s)
						}
					}
				}
				if len(thread.Frames) > maxFrames {
					t.Fatalf("%d frames", len(thread.Frames))
				}
			}
			if main > 1 {
				t.Fatalf("%d main threads", main)
			}
		}
		check(ParseFaulthandler(text))
		if threads, err := ParsePySpy([]byte(text)); err == nil {
			check(threads)
		}
		r, err := Decode([]byte(text))
		if err != nil {
			return
		}
		if len(r.Ranks) > MaxRanks {
			t.Fatalf("%d ranks", len(r.Ranks))
		}
		groups := Groups(r.Ranks, func(r *Rank) *Process { return &r.Process })
		n := 0
		for _, g := range groups {
			n += len(g.Members)
		}
		if n != len(r.Ranks) {
			t.Fatalf("%d of %d ranks are in groups", n, len(r.Ranks))
		}
	})
}
