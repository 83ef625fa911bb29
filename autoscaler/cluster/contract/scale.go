// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package contract

import (
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"
)

// scaling: Nomad refuses a scale if the job has changed since the given index, or if
// the count is outside the bounds.
func scaling(t *testing.T, n *Nomad) {
	n.Register(t, Job{ID: "scales", Count: 1, Min: 1, Max: 2})
	n.workers(t, "scales", 1)
	before := n.info(t, "scales")
	index := *before.JobModifyIndex
	answer, err := n.scale("scales", 2, index)
	must.NoError(t, err)
	_, err = n.scale("scales", 1, index)
	refused(t, err, 500, "Enforcing job modify index")
	_, err = n.scale("scales", 3, 0)
	refused(t, err, 400, "group count was greater than scaling policy maximum")
	_, err = n.scale("scales", 0, 0)
	refused(t, err, 400, "group count was less than scaling policy minimum")
	_, err = n.scale("nothing", 0, 0)
	refused(t, err, 404, "not found")
	after := n.info(t, "scales")
	must.Greater(t, index, *after.JobModifyIndex)
	must.Eq(t, *after.JobModifyIndex, answer.JobModifyIndex, must.Sprint("the next step is conditional on it"))
	must.Eq(t, *before.Version+1, *after.Version)
	must.Eq(t, *before.CreateIndex, *after.CreateIndex)
	must.GreaterEq(t, *before.SubmitTime, *after.SubmitTime)

	n.workers(t, "scales", 2)
	again, err := n.scale("scales", 2, *after.JobModifyIndex)
	must.NoError(t, err, must.Sprint("the same count is a new version"))
	must.Greater(t, *after.JobModifyIndex, again.JobModifyIndex)
	_, err = n.scale("scales", 1, again.JobModifyIndex)
	must.NoError(t, err)
	left := n.workers(t, "scales", 1)[0]
	must.Eq[any](t, "scales.workers[0]", left["Name"], must.Sprint("the highest index leaves"))
	var all []object
	n.get(t, "/v1/job/scales/allocations", nil, &all)
	must.Len(t, 2, all)
	must.Eq[any](t, "stop", find(all, "Name", "scales.workers[1]")["DesiredStatus"])
	n.purge(t, "scales")
}

// reporting: scaling events are kept, newest first. An event without a count does not
// change the job.
func reporting(t *testing.T, n *Nomad) {
	n.Register(t, Job{ID: "reports", Max: 2})
	_, err := n.scale("reports", 1, 0)
	must.NoError(t, err)
	before := n.info(t, "reports")
	report := &api.ScalingRequest{
		Target: map[string]string{"Group": "workers"}, Error: true, Message: "wrong", Meta: map[string]any{"kolo": map[string]any{"problem": true}},
	}
	_, _, err = n.Client.Jobs().ScaleWithRequest("reports", report, nil)
	must.NoError(t, err)
	report.Count = new(int64(2))
	_, _, err = n.Client.Jobs().ScaleWithRequest("reports", report, nil)
	refused(t, err, 400, "scaling action should not contain count if error is true")
	after := n.info(t, "reports")
	must.Eq(t, *before.JobModifyIndex, *after.JobModifyIndex)
	must.Eq(t, *before.Version, *after.Version)

	status, _, err := n.Client.Jobs().ScaleStatus("reports", nil)
	must.NoError(t, err)
	group := status.TaskGroups["workers"]
	must.Eq(t, 1, group.Desired)
	must.Len(t, 2, group.Events)
	must.Eq(t, "wrong", group.Events[0].Message)
	must.True(t, group.Events[0].Error)
	must.Nil(t, group.Events[0].Count)
	must.MapContainsKey(t, group.Events[0].Meta, "kolo")
	must.Eq(t, "why", group.Events[1].Message)
	must.Eq(t, 1, *group.Events[1].Count)
	must.Eq(t, 0, group.Events[1].PreviousCount)
	must.GreaterEq(t, group.Events[1].Time, group.Events[0].Time)
	_, _, err = n.Client.Jobs().ScaleStatus("nothing", nil)
	refused(t, err, 404, "not found")
	n.purge(t, "reports")
}

// tagging: a scale copies the tag of the previous version, and an untag removes it from one
// version. Nomad refuses a tag that another version already has.
func tagging(t *testing.T, n *Nomad) {
	if n.Before(t, "1.9.0") {
		t.Skip("Nomad before 1.9 has no version tags")
	}
	n.Register(t, Job{ID: "tagged", Max: 2})
	tag := func(version uint64) error {
		_, err := n.Client.Jobs().TagVersion("tagged", version, "kolo", "kept", nil)
		return err
	}
	untag := func() error {
		_, err := n.Client.Jobs().UntagVersion("tagged", "kolo", nil)
		return err
	}
	tags := func() map[uint64]string {
		versions, _, _, err := n.Client.Jobs().Versions("tagged", false, nil)
		must.NoError(t, err)
		out := map[uint64]string{}
		for i, v := range versions {
			must.True(t, i == 0 || *versions[i-1].Version > *v.Version, must.Sprint("newest first"))
			out[*v.Version] = ""
			if v.VersionTag != nil {
				out[*v.Version] = v.VersionTag.Name
			}
		}
		return out
	}
	must.Eq(t, map[uint64]string{0: ""}, tags())
	refused(t, untag(), 500, "not found on job")
	must.NoError(t, tag(0))
	must.NoError(t, tag(0))
	_, err := n.scale("tagged", 1, 0)
	must.NoError(t, err)
	must.Eq(t, map[uint64]string{1: "kolo", 0: "kolo"}, tags())
	must.NoError(t, untag())
	must.NoError(t, untag())
	must.Eq(t, map[uint64]string{1: "", 0: ""}, tags())
	must.NoError(t, tag(0))
	refused(t, tag(1), 500, "already exists on a different version of job")
	n.purge(t, "tagged")
	_, _, _, err = n.Client.Jobs().Versions("tagged", false, nil)
	refused(t, err, 404, "not found")
}
