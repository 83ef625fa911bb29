// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

func selectJobs() *api.Status {
	loss := 0.125
	return &api.Status{
		Ready: true,
		Jobs: []api.JobStatus{
			{JobKey: identity.JobKey{Namespace: "lab", ID: "b"}, Pool: "gpu", State: api.StateRunning, Count: 2, Running: 2, Progress: 0.5, Requests: api.Requests{Slots: 4}, Loss: &loss, StepTimes: []speedup.Point{{Size: 1, StepTime: 9}, {Size: 2, StepTime: 0.25}}},
			{JobKey: identity.JobKey{Namespace: "default", ID: "a"}, Pool: "gpu", State: api.StateWaiting, Waits: &api.Waits{Reason: waiting.NoRoom}},
			{JobKey: identity.JobKey{Namespace: "default", ID: "c"}, Pool: "cpu", State: api.StateRunning, Running: 8, Progress: 0.25},
		},
		Ineligible: []api.IneligibleJob{{JobKey: identity.JobKey{ID: "x"}, Problems: []string{"p"}}},
	}
}

// The flags -filter and -sort select and order jobs.
func TestSelection(t *testing.T) {
	for name, tc := range map[string]struct{ filter, sort, want string }{
		"all, in the autoscaler's order": {"", "", "lab/b a c"},
		"by state":                       {`state == "running"`, "", "lab/b c"},
		"two conditions":                 {`state == "running" and namespace != "default"`, "", "lab/b"},
		"one of two":                     {`id == "a" or id == "c"`, "", "a c"},
		"a pattern":                      {`id matches "^[ab]$"`, "", "lab/b a"},
		"why it waits":                   {`waits == "no-room"`, "", "a"},
		"a number":                       {`running == 8`, "", "c"},
		"none":                           {`idle == true`, "", ""},
		"names ascend":                   {"", "name", "a c lab/b"},
		"numbers descend":                {"", "workers", "c lab/b a"},
		"reversed":                       {"", "-workers", "a lab/b c"},
		"equal ones keep their order":    {"", "resizes", "lab/b a c"},
	} {
		t.Run(name, func(t *testing.T) {
			chosen, err := parseSelection(tc.filter, tc.sort)
			must.NoError(t, err)
			s := selectJobs()
			must.NoError(t, chosen.apply(s))
			must.Eq(t, tc.want, strings.ReplaceAll(drawJobs(s, "name"), "\n", " "))
			must.Eq(t, tc.filter == "", s.Ineligible != nil)
		})
	}
}

// A wrong filter is an error even if no job is there to be filtered.
func TestSelection_Mistakes(t *testing.T) {
	for _, tc := range []struct{ filter, sort, want string }{
		{`stat == "running"`, "", "stat"},
		{`state = "running"`, "", "write an expression such as"},
		{`running == "many"`, "", "many"},
		{"", "size", "-sort=size: write one of attained, idle, name"},
	} {
		_, err := parseSelection(tc.filter, tc.sort)
		must.ErrorContains(t, err, tc.want)
	}
}

// The output of -o=wide has all columns of the table, and more.
func TestStatus_Wide(t *testing.T) {
	lines := strings.Split(drawJobs(selectJobs(), "wide"), "\n")
	var row string
	for _, l := range lines {
		if strings.HasPrefix(l, "lab/b") {
			row = strings.Join(strings.Fields(l), " ")
		}
	}
	must.Eq(t, "lab/b running 2 0 0–0 50% - 0 - gpu 8 0.25s 0.125 - -", row)
}
