// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/mattn/go-isatty"
	"github.com/posener/complete"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// topCommand shows jobs, queues and events on the whole terminal.
type topCommand struct{ apiCommand }

// Synopsis implements cli.Command.
func (c *topCommand) Synopsis() string { return "Watch jobs, queues and events" }

// Help implements cli.Command.
func (c *topCommand) Help() string {
	return strings.TrimSpace(`
Usage: kolo top [options]

  Shows pools, jobs, queues and events on the whole terminal. The page of a job
  shows its size, step time and loss over time. Press ? for the keys. The command
  only reads.

Top Options:

  -every=<time>
    How often to ask the autoscaler. Default: 1s

  -filter=<expression>
    Show only jobs for which the expression is true, as in kolo status.

  -once
    Print one frame and exit. The environment variables COLUMNS and LINES set its
    size. Default: 80×24

  -sort=<column>
    Sort the jobs, as in kolo status.
` + apiHelp)
}

// AutocompleteFlags implements cli.CommandAutocomplete.
func (c *topCommand) AutocompleteFlags() complete.Flags {
	f := c.apiCommand.AutocompleteFlags()
	f["-every"], f["-filter"], f["-once"] = complete.PredictAnything, complete.PredictAnything, complete.PredictNothing
	f["-sort"] = complete.PredictSet(slices.Sorted(maps.Keys(orders))...)
	return f
}

// Run implements cli.Command.
func (c *topCommand) Run(args []string) int {
	f := c.apiFlags("top")
	every, once := f.Duration("every", time.Second, ""), f.Bool("once", false, "")
	filter, order := f.String("filter", "", ""), f.String("sort", "", "")
	if _, code, ok := c.parse(f, args, 0, 0, c.Help()); !ok {
		return code
	}
	chosen, err := parseSelection(*filter, *order)
	switch {
	case err != nil:
	case *every < 100*time.Millisecond:
		err = badFlag("-every=%s: write a time of at least 100ms", *every)
	case c.json:
		err = badFlag("-json: kolo top has no JSON output; use kolo status -json")
	case !*once && !isatty.IsTerminal(os.Stdout.Fd()):
		err = errors.New("kolo top needs a terminal; use -once to print one frame")
	}
	if err != nil {
		return c.usage(err, f, c.Help())
	}
	ctx, cancel := c.interruptible()
	defer cancel()
	m := newTop(chosen, *every, func(ask question) tea.Msg { return c.answer(ctx, ask) })
	if *once {
		return c.once(m)
	}
	program := tea.NewProgram(m, tea.WithContext(ctx))
	following := make(chan struct{})
	go func() {
		defer close(following)
		c.follow(ctx, program)
	}()
	_, err = program.Run()
	cancel()
	<-following
	if err != nil && !errors.Is(err, tea.ErrProgramKilled) && !errors.Is(err, tea.ErrInterrupted) {
		return c.fail(err)
	}
	return 0
}

// once prints one frame.
func (c *topCommand) once(m *top) int {
	answer := m.ask(question{})
	if a, ok := answer.(statusMsg); ok && a.err != nil {
		return c.fail(a.err)
	}
	m.Update(answer)
	size := func(name string, otherwise int) int {
		n, err := strconv.Atoi(os.Getenv(name))
		if err != nil || n < 1 {
			return otherwise
		}
		return n
	}
	m.Update(tea.WindowSizeMsg{Width: size("COLUMNS", 80), Height: size("LINES", 24)})
	c.UI.Output(ansi.Strip(m.frame()))
	return 0
}

// question states what the terminal view requests from the autoscaler.
type question struct {
	job  identity.JobKey // requests this job as well, if it has an ID
	plan bool            // requests only what the policies would do now
}

// Answers to questions.
type (
	statusMsg struct {
		status *api.Status
		job    *api.Job // nil if none was requested, or if it is unknown
		err    error
	}
	planMsg struct {
		pools []api.Proposal
		err   error
	}
	eventMsg api.Event
)

// answer asks the autoscaler. Each request has a time limit, so that the view reports an autoscaler
// that hangs.
func (c *topCommand) answer(ctx context.Context, q question) tea.Msg {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if q.plan {
		var m planMsg
		_, m.err = c.call(ctx, http.MethodGet, "/v1/plan", nil, nil, &m.pools)
		return m
	}
	var m statusMsg
	var s api.Status
	_, m.err = c.call(ctx, http.MethodGet, "/v1/status", nil, nil, &s)
	if m.err == nil {
		m.status = &s
	}
	if q.job.ID != "" && m.err == nil {
		var j api.Job
		_, err := c.call(ctx, http.MethodGet, "/v1/job", url.Values{"namespace": {q.job.Namespace}, "id": {q.job.ID}}, nil, &j)
		if err == nil {
			m.job = &j
		}
	}
	return m
}

// follow sends events to the program until ctx ends. It ignores errors of the stream, because the
// status already shows whether the autoscaler can be reached.
func (c *topCommand) follow(ctx context.Context, program *tea.Program) {
	for ctx.Err() == nil {
		if to, err := c.client(ctx); err == nil {
			_ = to.Events(ctx, func() {}, func(e api.Event) { program.Send(eventMsg(e)) }) // see above
		}
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Second):
		}
	}
}

// counts summarizes jobs and slots of all pools for the first line.
func counts(s *api.Status) string {
	used, capacity, waiting := 0, 0, 0
	for i := range s.Pools {
		used, capacity, waiting = used+s.Pools[i].Used, capacity+s.Pools[i].Capacity, waiting+s.Pools[i].Waiting
	}
	return fmt.Sprintf("%s, %d of %s, %d waiting", counted(len(s.Jobs), "job"), used, counted(capacity, "slot"), waiting)
}

// roleText returns the name of the autoscaler that answers, and its role.
func roleText(s *api.Status) string {
	role := "follows " + cmp.Or(s.Leader.Name, "no leader")
	if s.Leading {
		role = "leads"
	}
	return s.Autoscaler + " " + role
}
