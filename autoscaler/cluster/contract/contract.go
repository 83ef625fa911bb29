// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package contract is a test fixture: assertions of what the autoscaler takes for
// granted of Nomad. A real Nomad and the stand-in of the other tests, package nomadtest,
// must both pass them.
package contract

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"
)

// Nomad is the server under test, which has no job yet.
type Nomad struct {
	Client *api.Client
	// Register registers a batch job of one group "workers", elastic from 0 to most
	// workers or, for 0, not, of which a node takes one at most.
	Register func(t *testing.T, job string, count, most int)
	Nodes    int
}

// object is Nomad's JSON as it is: a decoded field that is missing looks like a zero.
type object = map[string]any

// Check runs all assertions, one after another, each on jobs of its own.
func Check(t *testing.T, n *Nomad) {
	for _, of := range []struct {
		name string
		run  func(*testing.T, *Nomad)
	}{
		{"what a job waits for", waiting},
		{"a scale, its conflict and its bounds", scaling},
		{"a job without workers", parked},
	} {
		t.Run(of.name, func(t *testing.T) { of.run(t, n) })
	}
}

// waiting: a blocked evaluation does not state how many workers wait; the job's summary
// does, by itself and in the list of jobs.
func waiting(t *testing.T, n *Nomad) {
	n.Register(t, "waits", n.Nodes+2, 0)
	var blocked object
	eventually(t, "a blocked evaluation", func() error {
		var list []object
		n.get(t, `/v1/evaluations?filter=Status+%3D%3D+%22blocked%22`, &list)
		for _, e := range list {
			if e["JobID"] == "waits" && e["Status"] == "blocked" {
				blocked = e
				return nil
			}
		}
		return fmt.Errorf("not in %v", list)
	})
	must.MapContainsKeys(t, blocked, []string{"ID", "Namespace", "ModifyIndex"})
	must.Nil(t, blocked["QueuedAllocations"], must.Sprint("a blocked evaluation does not have it"))

	eventually(t, "the summary", func() error {
		var one object
		n.get(t, "/v1/job/waits/summary", &one)
		if got := queued(one); got != 2 {
			return fmt.Errorf("%v workers wait in %v", got, one)
		}
		return nil
	})
	var list []object
	n.get(t, "/v1/jobs", &list)
	must.Len(t, 1, list)
	summary, _ := list[0]["JobSummary"].(object)
	must.Eq(t, 2, queued(summary))
	must.Eq[any](t, "running", list[0]["Status"])
	must.Positive(t, summary["ModifyIndex"].(float64))
	n.purge(t, "waits")
}

func queued(summary object) float64 {
	groups, _ := summary["Summary"].(object)
	workers, _ := groups["workers"].(object)
	n, known := workers["Queued"].(float64)
	if !known {
		return -1
	}
	return n
}

// scaling: a scale is refused where the job has changed since, and beyond the bounds.
func scaling(t *testing.T, n *Nomad) {
	n.Register(t, "scales", 0, 2)
	info, _, err := n.Client.Jobs().Info("scales", nil)
	must.NoError(t, err)
	index := *info.JobModifyIndex
	scale := func(count int, index uint64) error {
		_, _, err := n.Client.Jobs().ScaleWithRequest("scales", &api.ScalingRequest{
			Count: new(int64(count)), Target: map[string]string{"Group": "workers"}, Message: "why", JobModifyIndex: index,
		}, nil)
		return err
	}
	must.NoError(t, scale(1, index))
	must.ErrorContains(t, scale(2, index), "Enforcing job modify index")
	must.ErrorContains(t, scale(3, 0), "group count was greater than scaling policy maximum")
	again, _, err := n.Client.Jobs().Info("scales", nil)
	must.NoError(t, err)
	must.Greater(t, index, *again.JobModifyIndex)
	must.Greater(t, *info.Version, *again.Version)
	must.Eq(t, *info.CreateIndex, *again.CreateIndex)
	status, _, err := n.Client.Jobs().ScaleStatus("scales", nil)
	must.NoError(t, err)
	must.Eq(t, 1, status.TaskGroups["workers"].Desired)
	must.Eq(t, "why", status.TaskGroups["workers"].Events[0].Message)
	n.purge(t, "scales")
}

// parked: a batch job of no workers is dead at once, and can be scaled up all the same.
func parked(t *testing.T, n *Nomad) {
	n.Register(t, "parked", 0, 1)
	status := func(want string) {
		eventually(t, want, func() error {
			info, _, err := n.Client.Jobs().Info("parked", nil)
			if err == nil && *info.Status != want {
				err = fmt.Errorf("it is %s", *info.Status)
			}
			return err
		})
	}
	status("dead")
	_, _, err := n.Client.Jobs().Scale("parked", "workers", new(1), "", false, nil, nil)
	must.NoError(t, err)
	status("running")
	n.purge(t, "parked")
}

// get reads an answer as it is.
func (n *Nomad) get(t *testing.T, path string, into any) {
	t.Helper()
	body, err := n.Client.Raw().Response(path, (&api.QueryOptions{}).WithContext(t.Context()))
	must.NoError(t, err)
	defer body.Close()
	must.NoError(t, json.NewDecoder(body).Decode(into))
}

// purge removes a job and waits for it to be gone.
func (n *Nomad) purge(t *testing.T, job string) {
	t.Helper()
	_, _, err := n.Client.Jobs().Deregister(job, true, nil)
	must.NoError(t, err)
	eventually(t, job+" to be gone", func() error {
		allocs, _, err := n.Client.Allocations().List(nil)
		for _, a := range allocs {
			if a.JobID == job && (a.ClientStatus == "running" || a.ClientStatus == "pending") {
				return fmt.Errorf("%s still runs", a.Name)
			}
		}
		return err
	})
}

func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	must.Wait(t, wait.InitialSuccess(wait.ErrorFunc(check), wait.Timeout(time.Minute), wait.Gap(20*time.Millisecond)), must.Sprint(what))
}
