// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package contract

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"
)

// jobs: a job is read with its group, its scaling policy and its allocations, even if
// its name contains a slash. Such a job can't be tagged. Only the list of all allocations
// states their resources.
func jobs(t *testing.T, n *Nomad) {
	const name = "team/train"
	path := "/v1/job/" + strings.ReplaceAll(name, "/", "%2F")
	n.Register(t, Job{ID: name, Count: 1, Max: 2})
	worker := n.workers(t, name, 1)[0]
	has(t, "/v1/allocations", worker)
	must.Eq[any](t, name+".workers[0]", worker["Name"])
	must.NotNil(t, find(n.nodes(t), "ID", worker["NodeID"]))

	var whole object
	n.get(t, path, nil, &whole)
	has(t, "/v1/job/{}", whole)
	info := n.info(t, name)
	must.Eq(t, 1, *info.TaskGroups[0].Count)
	must.Eq(t, 0, *info.Version)
	must.Eq(t, 2, *info.TaskGroups[0].Scaling.Max)
	must.True(t, *info.TaskGroups[0].Scaling.Enabled)
	must.MapContainsKey(t, info.TaskGroups[0].Scaling.Policy, "kolo")
	must.Less(t, time.Hour, time.Since(time.Unix(0, *info.SubmitTime)))

	var own []object
	n.get(t, path+"/allocations", nil, &own)
	must.Len(t, 1, own)
	has(t, "/v1/job/{}/allocations", own[0])
	must.MapNotContainsKey(t, own[0], "AllocatedResources")
	must.Eq(t, worker["ID"], own[0]["ID"])

	var policies []object
	n.get(t, "/v1/scaling/policies", &api.QueryOptions{Params: map[string]string{"type": "horizontal"}}, &policies)
	must.Len(t, 1, policies)
	has(t, "/v1/scaling/policies", policies[0])
	must.Eq[any](t, name, policies[0]["Target"].(object)["Job"])

	_, err := n.Client.Jobs().TagVersion(name, 0, "kolo", "kept", nil)
	refused(t, err, 404, "invalid job tag endpoint")

	n.purge(t, name)
	_, _, err = n.Client.Jobs().Info(name, nil)
	refused(t, err, 404, "job not found")
	n.get(t, "/v1/scaling/policies", &api.QueryOptions{Params: map[string]string{"type": "horizontal"}}, &policies)
	must.SliceEmpty(t, policies)
}

// lists: a token leads from one page to the next, and a namespace without jobs has an
// empty list. A query at an index is answered when the list has changed or the wait is
// over.
func lists(t *testing.T, n *Nomad) {
	n.Register(t, Job{ID: "one", Count: 0, Max: 1})
	n.Register(t, Job{ID: "two", Count: 0, Max: 1})
	for path, want := range map[string]int{"/v1/nodes": n.Nodes, "/v1/jobs": 2} {
		ids, pages := map[any]bool{}, 0
		for q := (&api.QueryOptions{Namespace: "*", PerPage: 1}); pages == 0 || q.NextToken != ""; pages++ {
			var page []object
			meta := n.get(t, path, q, &page)
			must.Len(t, 1, page)
			must.Positive(t, meta.LastIndex)
			ids[page[0]["ID"]] = true
			q.NextToken = meta.NextToken
		}
		must.Eq(t, want, pages, must.Sprint(path))
		must.MapLen(t, want, ids, must.Sprint(path))
	}

	var elsewhere []object
	n.get(t, "/v1/jobs", &api.QueryOptions{Namespace: "elsewhere"}, &elsewhere)
	must.SliceEmpty(t, elsewhere)
	_, _, err := n.Client.Jobs().Info("one", &api.QueryOptions{Namespace: "elsewhere"})
	refused(t, err, 404, "job not found")

	spaces, meta, err := n.Client.Namespaces().List(nil)
	must.NoError(t, err)
	must.Positive(t, meta.LastIndex)
	must.True(t, slices.ContainsFunc(spaces, func(ns *api.Namespace) bool { return ns.Name == "default" }))

	var list []object
	var at uint64
	eventually(t, "a query that waits in vain", func() error { // what follows a job's registration is over
		at = n.get(t, "/v1/jobs", nil, &list).LastIndex
		asked := time.Now()
		next := n.get(t, "/v1/jobs", &api.QueryOptions{WaitIndex: at, WaitTime: 200 * time.Millisecond}, &list).LastIndex
		if next != at {
			return fmt.Errorf("the index moved from %d to %d", at, next)
		}
		must.GreaterEq(t, 200*time.Millisecond, time.Since(asked))
		return nil
	})
	next := make(chan uint64, 1)
	go func() {
		meta, err := n.Client.Raw().Query("/v1/jobs", &list, (&api.QueryOptions{WaitIndex: at, WaitTime: time.Minute}).WithContext(t.Context()))
		if err != nil {
			meta = &api.QueryMeta{}
		}
		next <- meta.LastIndex
	}()
	n.purge(t, "two")
	must.Greater(t, at, <-next)
	n.purge(t, "one")
}

// waiting: a blocked evaluation does not state how many workers wait. The job's summary
// does, both on its own and in the list of jobs. With room the evaluation is no longer
// blocked.
func waiting(t *testing.T, n *Nomad) {
	n.Register(t, Job{ID: "fills", Count: 1})
	n.workers(t, "fills", 1)
	n.Register(t, Job{ID: "waits", Count: n.Nodes})
	blocked := func() object {
		var list []object
		n.get(t, "/v1/evaluations", &api.QueryOptions{Filter: `Status == "blocked"`}, &list)
		return find(list, "JobID", "waits")
	}
	eventually(t, "a blocked evaluation", func() error {
		if blocked() == nil {
			return errors.New("there is none")
		}
		return nil
	})
	has(t, "/v1/evaluations", blocked())
	must.Nil(t, blocked()["QueuedAllocations"], must.Sprint("a blocked evaluation does not have it"))

	n.queued(t, "waits", 1)
	var list []object
	n.get(t, "/v1/jobs", nil, &list)
	waits := find(list, "ID", "waits")
	has(t, "/v1/jobs", waits)
	must.Eq(t, 1, queued(waits["JobSummary"].(object)))
	must.Eq[any](t, "running", waits["Status"])
	must.Positive(t, waits["JobSummary"].(object)["ModifyIndex"].(float64))

	n.purge(t, "fills")
	n.queued(t, "waits", 0)
	eventually(t, "no blocked evaluation", func() error {
		if e := blocked(); e != nil {
			return fmt.Errorf("there is %v", e)
		}
		return nil
	})
	n.purge(t, "waits")
}

// queued waits until the job's summary states the wanted number of queued workers.
func (n *Nomad) queued(t *testing.T, job string, want float64) {
	t.Helper()
	eventually(t, "the summary", func() error {
		var one object
		n.get(t, "/v1/job/"+job+"/summary", nil, &one)
		has(t, "/v1/job/{}/summary", one)
		if got := queued(one); got != want {
			return fmt.Errorf("%v workers wait in %v", got, one)
		}
		return nil
	})
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

// parked: a batch job without workers is dead immediately, and can still be scaled up.
func parked(t *testing.T, n *Nomad) {
	n.Register(t, Job{ID: "parked", Max: 1})
	is := func(want string) {
		eventually(t, want, func() error {
			if got := *n.info(t, "parked").Status; got != want {
				return fmt.Errorf("it is %s", got)
			}
			return nil
		})
	}
	is("dead")
	_, err := n.scale("parked", 1, 0)
	must.NoError(t, err)
	is("running")
	_, _, err = n.Client.Jobs().Deregister("parked", false, nil)
	must.NoError(t, err)
	info := n.info(t, "parked")
	must.True(t, *info.Stop)
	must.False(t, *info.TaskGroups[0].Scaling.Enabled, must.Sprint("a stop is the switch, too"))
	n.purge(t, "parked")
}

// completing: a worker that ends successfully is complete and still desired. The next
// scale runs it again under the same name.
func completing(t *testing.T, n *Nomad) {
	n.Register(t, Job{ID: "ends", Count: 1, Max: 2})
	first := n.workers(t, "ends", 1)[0]
	n.Finish(t, "ends")
	var done object
	eventually(t, "its end", func() error {
		var all []object
		n.get(t, "/v1/job/ends/allocations", nil, &all)
		if done = find(all, "ID", first["ID"]); done["ClientStatus"] != "complete" {
			return fmt.Errorf("it is %v", done["ClientStatus"])
		}
		return nil
	})
	must.Eq[any](t, "run", done["DesiredStatus"])
	must.Greater(t, first["ModifyIndex"].(float64), done["ModifyIndex"].(float64))
	eventually(t, "the job's end", func() error {
		if got := *n.info(t, "ends").Status; got != "dead" {
			return fmt.Errorf("it is %s", got)
		}
		return nil
	})
	index := *n.info(t, "ends").JobModifyIndex
	_, err := n.scale("ends", 1, index)
	must.NoError(t, err, must.Sprint("an end does not move the index of the job"))
	eventually(t, "the worker to be placed again", func() error {
		var all []object
		n.get(t, "/v1/job/ends/allocations", nil, &all)
		for _, a := range all {
			if a["ID"] != first["ID"] && a["Name"] == first["Name"] {
				return nil
			}
		}
		return fmt.Errorf("there are %v", all)
	})
	n.purge(t, "ends")
}

// services: an instance is registered with its allocation and the port that Nomad
// reserved for it.
func services(t *testing.T, n *Nomad) {
	none, _, err := n.Client.Services().Get("serves", nil)
	must.NoError(t, err)
	must.SliceEmpty(t, none)
	n.Register(t, Job{ID: "serves", Count: 1, Service: true})
	worker := n.workers(t, "serves", 1)[0]
	var r *api.ServiceRegistration
	eventually(t, "an instance", func() error {
		all, _, err := n.Client.Services().Get("serves", nil)
		if err != nil {
			return err
		}
		if len(all) != 1 {
			return fmt.Errorf("there are %d", len(all))
		}
		r = all[0]
		return nil
	})
	must.Eq(t, worker["ID"].(string), r.AllocID)
	must.Eq(t, "serves", r.JobID)
	must.Eq(t, "default", r.Namespace)

	var one object
	n.get(t, "/v1/allocation/"+r.AllocID, nil, &one)
	has(t, "/v1/allocation/{}", one)
	must.Eq[any](t, "serves", one["JobID"])
	var at []string
	for _, p := range one["AllocatedResources"].(object)["Shared"].(object)["Ports"].([]any) {
		at = append(at, fmt.Sprint(p.(object)["HostIP"], ":", p.(object)["Value"]))
	}
	must.SliceContains(t, at, fmt.Sprint(r.Address, ":", r.Port))
	_, err = n.Client.Raw().Query("/v1/allocation/00000000-0000-0000-0000-00000000dead", &one, nil)
	refused(t, err, 404, "alloc not found")
	n.purge(t, "serves")
}
