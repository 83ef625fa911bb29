// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/cli"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/task/stacks"
)

// fakeNomad has allocations that answer as their functions do.
type fakeNomad struct {
	allocs  []allocation
	answers map[string]func(task string, stdout, stderr io.Writer) (int, error)
	err     error
}

func (n *fakeNomad) running(context.Context, string) ([]allocation, error) { return n.allocs, n.err }

func (n *fakeNomad) exec(_ context.Context, a allocation, task string, _ []string, stdout, stderr io.Writer) (int, error) {
	return n.answers[a.ID](task, stdout, stderr)
}

// add adds an allocation.
func (n *fakeNomad) add(id string, answer func(task string, stdout, stderr io.Writer) (int, error)) {
	if n.answers == nil {
		n.answers = map[string]func(string, io.Writer, io.Writer) (int, error){}
	}
	n.allocs = append(n.allocs, allocation{ID: id, Node: "node-" + id[:1], Tasks: []string{"log", "train"}})
	n.answers[id] = answer
}

// reports answers in the task train with ranks.
func reports(t *testing.T, ranks ...stacks.Rank) func(string, io.Writer, io.Writer) (int, error) {
	t.Helper()
	text, err := json.Marshal(stacks.Report{Generation: 1, Size: 4, Ranks: ranks})
	must.NoError(t, err)
	return func(task string, stdout, stderr io.Writer) (int, error) {
		if task != "train" {
			_, _ = io.WriteString(stderr, "/bin/sh: exec: /local/kolo/progress/agent: not found\n")
			return 127, nil
		}
		_, err := stdout.Write(text)
		return 0, err
	}
}

// rank returns a rank with a stack.
func rank(number int, state stacks.State, functions ...string) stacks.Rank {
	r := stacks.Rank{Rank: number, Slot: 0, Step: 1204, Process: stacks.Process{PID: 100 + number, Command: "python3", State: state, Syscall: "futex"}}
	if len(functions) == 0 {
		r.Missing = "py-spy is not installed; faulthandler: a process that is stopped handles no signal"
		return r
	}
	main := stacks.Thread{Main: true}
	for i, f := range functions {
		main.Frames = append(main.Frames, stacks.Frame{Function: f, File: "/app/" + f + ".py", Line: i + 1})
	}
	r.Source, r.Threads = stacks.FromFaulthandler, []stacks.Thread{main, {Name: "Thread-1", Frames: []stacks.Frame{{Function: "poll", File: "/app/poll.py", Line: 9}}}}
	return r
}

// stacksOf runs the command.
func stacksOf(n *fakeNomad, limit time.Duration, args ...string) (code int, out, problem string) {
	ui := cli.NewMockUi()
	c := &stacksCommand{apiCommand: apiCommand{meta: meta{UI: ui}}, limit: limit, connect: func() (allocations, error) { return n, nil }}
	code = c.Run(append(args, "team/resnet"))
	return code, ui.OutputWriter.String(), ui.ErrorWriter.String()
}

func TestStacks(t *testing.T) {
	loading := rank(1, stacks.Sleeping, "fetch", "__next__", "train")
	loading.Workers = []stacks.Process{rank(50, stacks.Disk, "read", "main").Process, rank(51, stacks.Disk, "read", "main").Process}
	n := &fakeNomad{}
	n.add("aaaaaaaa-1", reports(t, rank(0, stacks.Running, "all_reduce", "train"), loading))
	n.add("bbbbbbbb-1", reports(t, rank(2, stacks.Sleeping, "all_reduce", "train"), rank(3, stacks.Stopped), rank(stacks.NoRank, stacks.Sleeping, "ready")))
	n.add("cccccccc-1", func(string, io.Writer, io.Writer) (int, error) {
		return 0, errors.New("Unexpected response code: 403 (Permission denied)")
	})
	n.add("dddddddd-1", func(string, io.Writer, io.Writer) (int, error) { select {} })
	code, out, problem := stacksOf(n, 200*time.Millisecond)
	must.Eq(t, 0, code, must.Sprint(problem))
	first, rest, _ := strings.Cut(out, "\n")
	must.StrHasPrefix(t, "team/resnet: 4 ranks of 4 allocations, ", first)
	must.Eq(t, `
rank 3 (suspect): stopped by a signal (SIGSTOP), after step 1204
  stack unknown: py-spy is not installed; faulthandler: a process that is stopped handles no signal
  process 103 in slot 0 of allocation bbbbbbbb on node-b

rank 1 (suspect): sleeping in futex, after step 1204
    fetch     /app/fetch.py:1
    __next__  /app/__next__.py:2
    train     /app/train.py:3
  process 101 in slot 0 of allocation aaaaaaaa on node-a
    2 child processes, such as 150 python3: in a sleep that no signal ends in futex
        read  /app/read.py:1
        main  /app/main.py:2

2 ranks (0, 2): running, after step 1204
    all_reduce  /app/all_reduce.py:1
    train       /app/train.py:2

1 process outside the ring, waiting for a place

allocation cccccccc on node-c: Unexpected response code: 403 (Permission denied): the token in NOMAD_TOKEN needs alloc-exec in the job's namespace, and alloc-node-exec for the drivers torch, horovod and raw_exec
allocation dddddddd on node-d: no answer in time
`, "\n"+strings.TrimPrefix(rest, "\n"))

	code, out, problem = stacksOf(n, 200*time.Millisecond, "-rank=2")
	must.Eq(t, 0, code, must.Sprint(problem))
	must.StrContains(t, out, "\nrank 2: sleeping in futex, after step 1204\n")
	must.StrContains(t, out, "  thread Thread-1\n    poll  /app/poll.py:9\n  process 102 in slot 0")
	must.StrNotContains(t, out, "rank 1")

	code, _, problem = stacksOf(n, 200*time.Millisecond, "-rank=7")
	must.Eq(t, 1, code)
	must.StrContains(t, problem, "team/resnet has no rank 7 among the 4 ranks that answered; allocation cccccccc on node-c has not answered: ")

	code, out, _ = stacksOf(n, 200*time.Millisecond, "-o=json")
	must.Eq(t, 0, code)
	var j jobStacks
	must.NoError(t, json.Unmarshal([]byte(out), &j))
	must.Len(t, 3, j.Groups)
	must.True(t, j.Groups[1].Suspect)
	must.Eq(t, "node-a", j.Groups[1].Ranks[0].Node)
	must.Eq(t, "fetch", j.Groups[1].Ranks[0].Main().Frames[0].Function)
	must.Len(t, 2, j.Unanswered)
}

// No allocation can make the command fail, print control characters or use much memory.
func TestStacks_Hostile(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(task string, stdout, stderr io.Writer) (int, error)
		want   string
	}{
		"no report":  {func(_ string, w, _ io.Writer) (int, error) { return 0, write(w, "hello") }, "allocation hhhhhhhh on node-h: report of stacks: "},
		"too much":   {func(_ string, w, _ io.Writer) (int, error) { return 0, write(w, strings.Repeat("x", maxAnswer+1)) }, "the answer is larger than 8 MiB"},
		"an error":   {func(_ string, _, w io.Writer) (int, error) { return 1, write(w, "\x1b[2Jforged\nline\n") }, `node-h: \x1b[2Jforged\nline`},
		"no text":    {func(string, io.Writer, io.Writer) (int, error) { return 3, nil }, "exit code 3"},
		"no program": {func(string, io.Writer, io.Writer) (int, error) { return 126, nil }, errNoAgent.Error()},
		"a forged name": {func(_ string, w, _ io.Writer) (int, error) {
			return 0, write(w, `{"ranks":[{"rank":9,"slot":-1,"state":"ok\u001b[2J","command":"\u202e","threads":[{"main":true,"frames":[{"function":"f\n\nrank 0 (suspect)","line":-5}]}]}]}`)
		}, "rank 9"},
		"too many ranks": {func(_ string, w, _ io.Writer) (int, error) {
			return 0, write(w, `{"ranks":[`+strings.Repeat(`{"rank":7},`, 1000)+`{"rank":7}]}`)
		}, "left out 937 processes"},
	} {
		t.Run(name, func(t *testing.T) {
			n := &fakeNomad{}
			n.add("aaaaaaaa-1", reports(t, rank(0, stacks.Running, "all_reduce"), rank(1, stacks.Running, "all_reduce")))
			n.add("hhhhhhhh-1", c.answer)
			code, out, problem := stacksOf(n, time.Minute)
			must.Eq(t, 0, code, must.Sprint(problem))
			must.StrContains(t, out, c.want)
			must.StrContains(t, out, "2 ranks (0, 1)")
			must.StrNotContains(t, out, "\x1b")
			must.StrNotContains(t, out, "\nrank 0")
		})
	}
}

func write(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

func TestStacks_Errors(t *testing.T) {
	for name, c := range map[string]struct {
		nomad *fakeNomad
		args  []string
		code  int
		says  string
	}{
		"no allocation":   {&fakeNomad{}, nil, 1, "team/resnet has no running allocation"},
		"no Nomad":        {&fakeNomad{err: errors.New("connection refused")}, nil, 1, "connection refused"},
		"a negative rank": {&fakeNomad{}, []string{"-rank=-2"}, 2, "-rank=-2: write a number of at least 0"},
		"a format":        {&fakeNomad{}, []string{"-o=xml"}, 2, "-o=xml: write text or json"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, problem := stacksOf(c.nomad, time.Minute, c.args...)
			must.Eq(t, c.code, code)
			must.StrContains(t, problem, c.says)
		})
	}
}

// All processes wait for their first ring, which does not form.
func TestStacks_NoRing(t *testing.T) {
	n := &fakeNomad{}
	for i, f := range []string{"wait", "wait", "import_module"} {
		n.add(fmt.Sprintf("%d0000000-1", i), reports(t, rank(stacks.NoRank, stacks.Sleeping, f)))
	}
	_, out, _ := stacksOf(n, time.Minute)
	must.StrContains(t, out, "\na process without a rank (suspect): sleeping in futex")
	must.StrContains(t, out, "\n2 processes without a rank: ")
}

func TestTasksOf(t *testing.T) {
	hook := &nomad.TaskLifecycle{Hook: "prestart"}
	group := func(tasks ...*nomad.Task) *nomad.TaskGroup { return &nomad.TaskGroup{Tasks: tasks} }
	must.Eq(t, []string{"b"}, tasksOf(group(&nomad.Task{Name: "a", Driver: "docker"}, &nomad.Task{Name: "b", Driver: "torch"})))
	must.Eq(t, []string{"a", "b"}, tasksOf(group(&nomad.Task{Name: "a", Driver: "docker"}, &nomad.Task{Name: "b", Driver: "exec"}, &nomad.Task{Name: "c", Lifecycle: hook})))
}

// Ranks of a ring before the newest one are shown, with a remark.
func TestStacks_FormerRing(t *testing.T) {
	n := &fakeNomad{}
	for id, generation := range map[string]uint64{"aaaaaaaa-1": 4, "bbbbbbbb-1": 3, "cccccccc-1": 0} {
		text, err := json.Marshal(stacks.Report{Generation: generation, Ranks: []stacks.Rank{rank(1, stacks.Sleeping, "wait")}})
		must.NoError(t, err)
		n.add(id, func(_ string, w, _ io.Writer) (int, error) { return 0, write(w, string(text)) })
	}
	_, out, _ := stacksOf(n, time.Minute)
	must.StrContains(t, out, "\nallocation bbbbbbbb on node-b: its ranks are those of ring 3, and the newest ring is 4\n")
	must.StrNotContains(t, out, "\nallocation aaaaaaaa")
	must.StrNotContains(t, out, "\nallocation cccccccc", must.Sprint("it is in no ring yet"))
}

// Answers that have arrived count, also if the time is over.
func TestCollect(t *testing.T) {
	answers := make(chan answer, 33)
	for i := range 32 {
		answers <- answer{at: i}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	must.Len(t, 32, collect(over, answers, 33))
	must.SliceEmpty(t, collect(over, answers, 33))
}

// A Nomad that is not there is named, with the variable that has its address.
func TestNomadAllocations_NoNomad(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	client, err := nomad.NewClient(&nomad.Config{Address: server.URL})
	must.NoError(t, err)
	_, err = (&nomadAllocations{client: client, namespace: "default"}).running(t.Context(), "train")
	must.ErrorContains(t, err, "nomad does not answer; is it running at "+server.URL+" (NOMAD_ADDR)?")
}
