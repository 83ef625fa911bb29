// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package autoscaler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"
)

// rigid registers a job that is not elastic, with more in its group.
func (w *world) rigid(t *testing.T, name string, count int, more string, edit ...*strings.Replacer) {
	t.Helper()
	head, tail, _ := strings.Cut(jobHCL, "    scaling {")
	_, tail, _ = strings.Cut(tail, "    task ")
	hcl := strings.Replace(head, "count = 0", fmt.Sprintf("count = %d\n%s", count, more), 1) + "    task " + tail
	for _, e := range edit {
		hcl = e.Replace(hcl)
	}
	w.register(t, strings.ReplaceAll(hcl, "NAME", name))
}

// room makes jobs that are not elastic wait for slots that an elastic job has.
func (w *world) room(t *testing.T) {
	timing := "planner {\n  placement_timeout = \"5s\"\n  placement_retry = \"5s\""
	d := w.agentWith(t, "one", strings.Replace(fmt.Sprintf(configuration, w.Address), "planner {", timing, 1))
	waitFor(t, time.Minute, "leadership", d.leads)
	w.submit(t, "a", "min = 1")
	w.eventually(t, time.Minute, map[string]int{"a": slots})

	t.Log("a job that fits")
	w.rigid(t, "fits", 3, "")
	w.eventually(t, time.Minute, map[string]int{"fits": 3, "a": slots - 3})
	w.purgeJob(t, "fits")
	w.eventually(t, time.Minute, map[string]int{"a": slots})

	t.Log("a job that Nomad never places, for a volume that no node has")
	w.rigid(t, "never", slots, "volume \"v\" {\n      type   = \"host\"\n      source = \"none\"\n    }")
	waitFor(t, time.Minute, "room to be made", func() bool { n, err := w.count("a"); return err == nil && n < slots })
	w.eventually(t, time.Minute, map[string]int{"a": slots})
	must.StrContains(t, d.log(), "Nomad placed none of them")
	w.purgeJob(t, "never")
	w.eventually(t, time.Minute, map[string]int{"a": slots})

	if len(w.Nodes) == 1 {
		return
	}
	t.Log("a job that fits once a node has joined")
	node := w.Nodes[0]
	_, err := w.API.Nodes().UpdateDrain(node.ID, &api.DrainSpec{Deadline: 5 * time.Second}, false, nil)
	must.NoError(t, err)
	left := slots - slots/len(w.Nodes)
	w.eventually(t, time.Minute, map[string]int{"a": left})
	w.rigid(t, "later", 2, fmt.Sprintf("constraint {\n      attribute = \"${node.unique.name}\"\n      value     = %q\n    }", node.Name))
	waitFor(t, time.Minute, "the job to wait", func() bool {
		evals, _, err := w.API.Jobs().Evaluations("later", nil)
		return err == nil && len(evals) > 1
	})
	_, err = w.API.Nodes().UpdateDrain(node.ID, nil, true, nil)
	must.NoError(t, err)
	w.eventually(t, 2*time.Minute, map[string]int{"later": 2, "a": slots - 2})
	w.purge(t, "a", "later")
}
