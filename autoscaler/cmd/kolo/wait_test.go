// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/cli"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
)

func TestWait(t *testing.T) {
	key := identity.JobKey{Namespace: "a", ID: "j"}
	type answer struct {
		code int
		job  api.Job
		text string
	}
	status := func(state string, running, size int) answer {
		s := &api.JobStatus{JobKey: key, State: state, Running: running, Size: size}
		if state == api.StateWaiting {
			s.Waits = &api.Waits{Reason: waiting.NoRoom, Sentence: "nothing is free"}
		}
		return answer{code: 200, job: api.Job{Job: s}}
	}
	unknown, broken := answer{code: 404, text: "kolo does not scale a job a/j"}, answer{code: 503, text: "no leader"}
	waits, starts, trains := status(api.StateWaiting, 0, 0), status(api.StateRunning, 2, 0), status(api.StateRunning, 2, 2)
	stopped := answer{code: 200, job: api.Job{Job: &api.JobStatus{JobKey: key, State: api.StateHeld, HoldReason: "the job is stopped"}}}
	off := answer{code: 200, job: api.Job{Ineligible: &api.IneligibleJob{JobKey: key, Off: true}}}
	done := status(api.StateComplete, 0, 0)
	invalid := answer{code: 200, job: api.Job{Ineligible: &api.IneligibleJob{JobKey: key, Problems: []string{"min is above max"}}}}

	for name, c := range map[string]struct {
		answers []answer // the last one repeats
		args    []string
		code    int
		says    []string
		silent  string
		unknown time.Duration // a minute if 0
	}{
		"until it is complete":           {answers: []answer{waits, starts, trains, trains, done}, says: []string{"a/j: waiting: no-room: nothing is free\n", "running: 2 workers\n", "2 train together\n", "a/j: complete\n"}},
		"until it runs":                  {answers: []answer{unknown, waits, starts, done}, args: []string{"-for", "running"}, says: []string{"unknown to the autoscaler", "running: 2 workers"}, silent: "complete"},
		"until it has a size":            {answers: []answer{starts, trains}, args: []string{"-for", "size=2"}, says: []string{"2 train together"}},
		"until it waits":                 {answers: []answer{trains, waits}, args: []string{"-for", "waiting"}, says: []string{"no-room"}},
		"errors in between":              {answers: []answer{waits, broken, done}, says: []string{"no leader", "a/j: complete"}},
		"stopped for a while":            {answers: []answer{trains, stopped, off, trains, done}, says: []string{"a/j: stopped, or its kolo block is off\n", "a/j: held: the job is stopped\n", "a/j: complete\n"}},
		"complete, and never so large":   {answers: []answer{trains, done}, args: []string{"-for", "size=4"}, code: 1, says: []string{"a/j will not be size=4: it is complete"}},
		"a job with an error":            {answers: []answer{invalid}, code: 1, says: []string{"kolo does not scale a/j because of errors: min is above max"}},
		"a job that nobody knows":        {answers: []answer{unknown}, code: 1, says: []string{"Error: kolo does not scale a job a/j"}, unknown: 20 * time.Millisecond},
		"no answer to the first request": {answers: []answer{broken}, code: 1, says: []string{"Error: no leader"}},
		"too long":                       {answers: []answer{waits}, args: []string{"-timeout", "50ms"}, code: exitTimeout, says: []string{"a/j is not complete after 50ms"}},
		"JSON":                           {answers: []answer{waits, done}, args: []string{"-json"}, says: []string{`"state": "complete"`}, silent: "no-room"},
		"a wrong state":                  {args: []string{"-for", "done"}, code: exitUsage, says: []string{"write complete, running, waiting or size=<slots>"}},
		"a wrong size":                   {args: []string{"-for", "size=0"}, code: exitUsage, says: []string{"at least 1"}},
		"a wrong time":                   {args: []string{"-timeout", "-1s"}, code: exitUsage, says: []string{"at least 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				must.EqOp(t, "id=j&namespace=a", r.URL.RawQuery)
				a := c.answers[min(int(asked.Add(1)), len(c.answers))-1]
				w.WriteHeader(a.code)
				var out any = a.job
				if a.text != "" {
					out = api.Problem{Error: a.text}
				}
				must.NoError(t, json.NewEncoder(w).Encode(out))
			}))
			t.Cleanup(s.Close)
			ui := cli.NewMockUi()
			command := &waitCommand{apiCommand: apiCommand{meta: meta{UI: ui}}, every: time.Millisecond, unknown: cmp.Or(c.unknown, time.Minute)}
			code := command.Run(append(append([]string{"-address", s.URL}, c.args...), "a/j"))
			out := ui.OutputWriter.String() + ui.ErrorWriter.String()
			must.EqOp(t, c.code, code, must.Sprint(out))
			for _, text := range c.says {
				must.StrContains(t, out, text)
			}
			if c.silent != "" {
				must.StrNotContains(t, out, c.silent)
			}
		})
	}
}
